//! The result of a measurement.

use serde_json::{Map, Value};

/// Named values in their order, as one line of JSON holds them.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Measurement(Map<String, Value>);

impl Measurement {
    /// Without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a value.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// The values.
    pub fn into_fields(self) -> Map<String, Value> {
        self.0
    }
}

//! The rest of a body whose request has been answered.
//!
//! A connection that is closed while the other side still sends is reset, and the answer may be lost with it. So a little more
//! is read and thrown away; whoever sends more than that is hung up on.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};

/// Bytes that are read for the sake of the answer, and how long.
const BYTES: usize = 1 << 20;
const TIME: Duration = Duration::from_secs(5);

/// A body that is read on, up to a limit, after it was dropped.
pub(super) struct Drained(Option<Body>);

impl Drained {
    pub(super) fn new(body: Body) -> Self {
        Self(Some(body))
    }
}

impl HttpBody for Drained {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        let Some(mut body) = self.0.take().filter(|body| !body.is_end_stream()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(tokio::time::timeout(TIME, async move {
            let mut left = BYTES;
            while let Some(Ok(frame)) = body.frame().await {
                let Some(less) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { break };
                left = less;
            }
        }));
    }
}

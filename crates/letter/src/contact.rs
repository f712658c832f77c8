//! Entries of an address book.

use restante_wire::{
    Envelope, Kind, Reader,
    relay::{RelayKey, decode_relay_key, encode_relay_key},
};

use crate::{Address, LetterError, address::open_file};

/// Somebody to write to: a name of the user's choice, an address, and the relay that the recipient reads.
///
/// ```
/// use restante_clue::{ClueParameters, ClueSecretKey};
/// use restante_letter::{Address, Contact, OpeningKey};
/// use restante_ring::sample::Seed;
///
/// let clue_key = ClueSecretKey::new(ClueParameters::STANDARD, &Seed::from([1; 32]));
/// let address = Address::new(clue_key.clue_key().clone(), &OpeningKey::from_seed(&[2; 32]));
/// let contact = Contact::new("Alice", "https://relay.example", None, address)?;
/// assert_eq!(Contact::from_file(&contact.to_file())?, contact);
/// # Ok::<(), restante_letter::LetterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    name: String,
    relay: String,
    relay_key: Option<RelayKey>,
    address: Address,
}

impl Contact {
    /// The version of the file format.
    pub const VERSION: u16 = 2;
    /// The longest name and the longest relay, in bytes.
    pub const MAX_TEXT_BYTES: usize = 255;

    /// An entry. `relay` is the URL that the recipient's relay has, `relay_key` its key.
    ///
    /// # Errors
    ///
    /// [`LetterError::Text`] for texts that are empty, too long, or hold control characters.
    pub fn new(
        name: &str,
        relay: &str,
        relay_key: Option<RelayKey>,
        address: Address,
    ) -> Result<Self, LetterError> {
        for (what, text) in [("name of a contact", name), ("relay of a contact", relay)] {
            check_text(what, text)?;
        }
        Ok(Self { name: name.into(), relay: relay.into(), relay_key, address })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The relay's URL.
    pub fn relay(&self) -> &str {
        &self.relay
    }

    /// The relay's key, if it is known.
    pub fn relay_key(&self) -> Option<RelayKey> {
        self.relay_key
    }

    /// The address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The file: name and relay, each with its length (16 bits) in front, a flag and the relay's key (zeros if it is not known),
    /// and the address as in its own file's body.
    pub fn to_file(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for text in [&self.name, &self.relay] {
            body.extend_from_slice(&(text.len() as u16).to_le_bytes());
            body.extend_from_slice(text.as_bytes());
        }
        encode_relay_key(self.relay_key, &mut body);
        self.address.encode_body(&mut body);
        let parameters = self.address.parameters().id();
        Envelope { kind: Kind::Contact, version: Self::VERSION, parameters, body: &body }.seal()
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`LetterError`].
    pub fn from_file(bytes: &[u8]) -> Result<Self, LetterError> {
        let (parameters, body) = open_file(bytes, Kind::Contact, Self::VERSION)?;
        let mut reader = Reader::new("contact", body);
        let name = read_text("name of a contact", &mut reader)?;
        let relay = read_text("relay of a contact", &mut reader)?;
        let key = decode_relay_key(&mut reader)?;
        let address = Address::decode_body(&parameters, &mut reader)?;
        reader.finish()?;
        Self::new(&name, &relay, key, address)
    }
}

fn read_text(what: &'static str, reader: &mut Reader<'_>) -> Result<String, LetterError> {
    let length = usize::from(reader.u16()?);
    let text = std::str::from_utf8(reader.bytes(length)?).map_err(|_| LetterError::Text { what })?;
    Ok(text.into())
}

/// Refuses a name or another short text that cannot be shown or kept; `what` names it in the error.
///
/// # Errors
///
/// [`LetterError::Text`] if it is empty, longer than [`Contact::MAX_TEXT_BYTES`], or holds control characters.
pub fn check_text(what: &'static str, text: &str) -> Result<(), LetterError> {
    let fits = (1..=Contact::MAX_TEXT_BYTES).contains(&text.len()) && !text.contains(char::is_control);
    fits.then_some(()).ok_or(LetterError::Text { what })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use restante_clue::ClueParameters;
    use restante_wire::relay::Hex;

    use super::*;
    use crate::address::test_address;

    #[test]
    fn files_read_back_and_every_cut_is_refused() {
        let address = test_address();
        let contact =
            Contact::new("Zoë", "https://relay.example", Some(Hex([7; 32])), address.clone()).unwrap();
        let file = contact.to_file();
        assert_eq!(Contact::from_file(&file).unwrap(), contact);
        let without = Contact::new("Z", "http://localhost:1", None, address.clone()).unwrap();
        assert_eq!(Contact::from_file(&without.to_file()).unwrap(), without);
        let body = Envelope::open(&file).unwrap().body;
        let parameters = ClueParameters::STANDARD.id();
        for length in 0..body.len() {
            let cut = Envelope {
                kind: Kind::Contact,
                version: Contact::VERSION,
                parameters,
                body: &body[..length],
            };
            assert!(Contact::from_file(&cut.seal()).is_err(), "{length}");
        }
        for wrong in ["", "a\nb", "\u{1b}[31m", &"x".repeat(256)] {
            let error = Contact::new(wrong, "r", None, address.clone()).unwrap_err();
            assert_eq!(error, LetterError::Text { what: "name of a contact" });
        }
    }
}

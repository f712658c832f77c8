use restante_clue::ClueParameters;
use restante_letter::{Contact, LetterError, check_text};
use restante_wire::{
    Envelope, Kind, ParameterId, Reader, WireError,
    relay::{Hex, RelayKey, decode_relay_key, encode_relay_key},
};
use zeroize::Zeroizing;

use super::Outbox;

/// Whose board a message is for: its relay, as the caller names it, the relay's key if it is known, and the board's kind of clues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The relay's URL: up to 255 bytes, without control characters.
    pub relay: String,
    /// The relay's key, if it is known.
    pub key: Option<RelayKey>,
    /// The board's clues.
    pub parameters: ClueParameters,
}

/// An [`Outbox`] for each destination: what waits for one relay never goes to another.
///
/// ```
/// use restante_client::{Account, ClueParameters, relay::{Destination, Outboxes}};
/// # use rand_core::SeedableRng;
/// # let mut rng = chacha20::ChaCha20Rng::from_seed([1; 32]);
///
/// let account = Account::random(ClueParameters::STANDARD, &mut rng);
/// let destination = Destination {
///     relay: "https://relay.example".into(),
///     key: None,
///     parameters: ClueParameters::STANDARD,
/// };
/// let mut outboxes = Outboxes::new();
/// outboxes.outbox(&destination)?.push(account.address(), b"meet at noon", &mut rng)?;
/// assert_eq!(Outboxes::from_file(&outboxes.to_file())?, outboxes);
/// # Ok::<(), restante_client::LetterError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outboxes {
    boxes: Vec<(Destination, Outbox)>,
}

impl Outboxes {
    /// The version of the file format.
    pub const VERSION: u16 = 1;

    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// The outbox for a destination, made if there is none.
    ///
    /// # Errors
    ///
    /// [`LetterError::Text`] for a URL that cannot be kept.
    pub fn outbox(&mut self, destination: &Destination) -> Result<&mut Outbox, LetterError> {
        check_text("relay of an outbox", &destination.relay)?;
        let place = match self.boxes.iter().position(|(known, _)| known == destination) {
            Some(place) => place,
            None => {
                self.boxes.push((destination.clone(), Outbox::new(destination.parameters)));
                self.boxes.len() - 1
            }
        };
        Ok(&mut self.boxes[place].1)
    }

    /// Removes a message that waits, and gives whether it was there: see [`Outbox::remove`].
    pub fn remove(&mut self, ticket: &Hex<16>) -> bool {
        let removed = self.boxes.iter_mut().any(|(_, outbox)| outbox.remove(ticket));
        self.remove_empty();
        removed
    }

    /// The destinations and their outboxes.
    pub fn iter(&self) -> impl Iterator<Item = (&Destination, &Outbox)> {
        self.boxes.iter().map(|(destination, outbox)| (destination, outbox))
    }

    /// Removes the outboxes that hold nothing.
    pub fn remove_empty(&mut self) {
        self.boxes.retain(|(_, outbox)| outbox.waiting() > 0 || outbox.receipts().next().is_some());
    }

    /// The file: number of outboxes (32 bits), then for each the relay's URL after its length (16 bits), a flag and the relay's key
    /// (zeros if it is not known), the length of the outbox's own file (64 bits), and that file.
    ///
    /// It holds texts that are not posted yet.
    pub fn to_file(&self) -> Zeroizing<Vec<u8>> {
        let files: Vec<_> = self.boxes.iter().map(|(_, outbox)| outbox.to_file()).collect();
        // At once, so that no half-grown copy stays behind in memory.
        let frame = 2 + Contact::MAX_TEXT_BYTES + 33 + 8;
        let capacity = 4 + files.iter().map(|file| frame + file.len()).sum::<usize>();
        let mut body = Zeroizing::new(Vec::with_capacity(capacity));
        body.extend_from_slice(&(self.boxes.len() as u32).to_le_bytes());
        for ((destination, _), file) in self.boxes.iter().zip(&files) {
            body.extend_from_slice(&(destination.relay.len() as u16).to_le_bytes());
            body.extend_from_slice(destination.relay.as_bytes());
            encode_relay_key(destination.key, &mut body);
            body.extend_from_slice(&(file.len() as u64).to_le_bytes());
            body.extend_from_slice(file);
        }
        let (version, parameters) = (Self::VERSION, ParameterId::NONE);
        Zeroizing::new(Envelope { kind: Kind::Outboxes, version, parameters, body: &body }.seal())
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`LetterError`].
    pub fn from_file(bytes: &[u8]) -> Result<Self, LetterError> {
        let envelope = Envelope::open_as(bytes, Kind::Outboxes, Self::VERSION, ParameterId::NONE)?;
        let mut reader = Reader::new("outboxes", envelope.body);
        let mut boxes: Vec<(Destination, Outbox)> = Vec::new();
        for _ in 0..reader.u32()? {
            let what = "relay of an outbox";
            let length = usize::from(reader.u16()?);
            let relay = std::str::from_utf8(reader.bytes(length)?).map_err(|_| LetterError::Text { what })?;
            check_text(what, relay)?;
            let key = decode_relay_key(&mut reader)?;
            let length = reader.u64()?;
            let outbox = Outbox::from_file(reader.bytes(usize::try_from(length).unwrap_or(usize::MAX))?)?;
            let destination = Destination { relay: relay.into(), key, parameters: *outbox.parameters() };
            if boxes.iter().any(|(known, _)| *known == destination) {
                let (what, expected) = ("number of outboxes for one destination", "1".into());
                return Err(WireError::OutOfRange { what, found: 2, expected }.into());
            }
            boxes.push((destination, outbox));
        }
        reader.finish()?;
        Ok(Self { boxes })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn destination(relay: &str, key: Option<u8>, parameters: ClueParameters) -> Destination {
        Destination { relay: relay.into(), key: key.map(|byte| Hex([byte; 32])), parameters }
    }

    #[test]
    fn every_destination_has_an_outbox_of_its_own() {
        let (standard, short) = (ClueParameters::STANDARD, ClueParameters::SHORT);
        let destinations = [
            destination("https://a.example", None, standard),
            destination("https://a.example", Some(1), standard),
            destination("https://a.example", Some(1), short),
            destination("https://b.example", Some(1), short),
        ];
        let mut boxes = Outboxes::new();
        for one in destinations.iter().chain(&destinations) {
            assert_eq!(*boxes.outbox(one).unwrap().parameters(), one.parameters);
        }
        assert!(boxes.iter().map(|(one, _)| one).eq(&destinations));
        let file = boxes.to_file();
        assert_eq!(Outboxes::from_file(&file).unwrap(), boxes);
        let body = Envelope::open(&file).unwrap().body;
        let seal = |body: &[u8]| {
            let (kind, version, parameters) = (Kind::Outboxes, Outboxes::VERSION, ParameterId::NONE);
            Envelope { kind, version, parameters, body }.seal()
        };
        for length in 0..body.len() {
            assert!(Outboxes::from_file(&seal(&body[..length])).is_err(), "{length}");
        }
        // One destination twice.
        let twice = Outboxes { boxes: vec![boxes.boxes[0].clone(), boxes.boxes[0].clone()] };
        assert!(Outboxes::from_file(&twice.to_file()).is_err());
        boxes.remove_empty();
        assert_eq!(boxes, Outboxes::new());
        assert!(boxes.outbox(&destination("a\nb", None, short)).is_err());
    }
}

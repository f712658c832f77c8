//! Envelopes that are larger than memory: written piece by piece, and checked in one pass.

use std::io::{self, Read, Write};

use crate::{
    Kind, ParameterId, Reader, WireError,
    envelope::{CHECKSUM_BYTES, HEADER_BYTES, Header},
};

/// Writes an envelope whose body comes in pieces. Its length has to be known before.
///
/// It writes the same bytes as [`Envelope::seal`](crate::Envelope::seal) of the whole body.
pub struct EnvelopeWriter<W: Write> {
    out: W,
    hasher: blake3::Hasher,
    left: u64,
}

impl<W: Write> EnvelopeWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    ///
    /// As `out` has them; here and in the other functions.
    pub fn new(
        out: W,
        kind: Kind,
        version: u16,
        parameters: ParameterId,
        body_bytes: u64,
    ) -> io::Result<Self> {
        let mut writer = Self { out, hasher: blake3::Hasher::new(), left: HEADER_BYTES as u64 };
        writer.write_all(&Header { kind, version, parameters, body_bytes }.to_bytes())?;
        writer.left = body_bytes;
        Ok(writer)
    }

    /// Writes the checksum, and gives back where it went.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if the body is shorter than was said.
    pub fn finish(mut self) -> io::Result<W> {
        if self.left > 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.out.write_all(&self.hasher.finalize().as_bytes()[..CHECKSUM_BYTES])?;
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> Write for EnvelopeWriter<W> {
    /// Writes a piece of the body. [`io::ErrorKind::InvalidInput`] if the body is longer than was said.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let written = self.out.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Reads an envelope to its end, with a fixed amount of memory, and gives the length of its body, which starts at byte
/// [`BODY_START`]. All is checked that [`Envelope::open_as`](crate::Envelope::open_as) checks.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] with a [`WireError`] inside, and what `input` has.
pub fn check_envelope(
    input: &mut impl Read,
    kind: Kind,
    version: u16,
    parameters: ParameterId,
) -> io::Result<u64> {
    let mut header = Vec::new();
    input.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    let mut reader = Reader::new("file", &header);
    let found = Header::read(&mut reader).map_err(refused)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header);
    let (mut left, mut piece) = (found.body_bytes, vec![0; 1 << 16]);
    while left > 0 {
        let most = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match input.read(&mut piece[..most]) {
            Ok(0) => {
                let [needed, left] = [left, 0].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
                return Err(refused(WireError::Truncated { what: "file", needed, left }));
            }
            Ok(read) => {
                hasher.update(&piece[..read]);
                left -= read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut end = Vec::new();
    input.by_ref().take(CHECKSUM_BYTES as u64 + 1).read_to_end(&mut end)?;
    let mut reader = Reader::new("file", &end);
    let checksum: [u8; CHECKSUM_BYTES] = reader.array().map_err(refused)?;
    reader.finish().map_err(refused)?;
    if hasher.finalize().as_bytes()[..CHECKSUM_BYTES] != checksum {
        return Err(refused(WireError::Corrupted { kind: found.kind }));
    }
    found.check(kind, version, parameters).map_err(refused)?;
    Ok(found.body_bytes)
}

/// Where the body of an envelope starts.
pub const BODY_START: u64 = HEADER_BYTES as u64;

fn refused(error: WireError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Envelope;

    const PARAMETERS: ParameterId = ParameterId(*b"for test");

    fn check(bytes: &[u8]) -> Result<u64, Option<WireError>> {
        check_envelope(&mut &bytes[..], Kind::Messages, 3, PARAMETERS)
            .map_err(|error| error.get_ref().and_then(|inner| inner.downcast_ref::<WireError>()).cloned())
    }

    #[test]
    fn pieces_make_the_same_envelope_and_it_is_checked_alike() {
        for length in [0, 1, 70_000] {
            let body: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let envelope = Envelope { kind: Kind::Messages, version: 3, parameters: PARAMETERS, body: &body };
            let mut writer = EnvelopeWriter::new(Vec::new(), Kind::Messages, 3, PARAMETERS, length).unwrap();
            body.chunks(999).for_each(|piece| writer.write_all(piece).unwrap());
            let bytes = writer.finish().unwrap();
            assert!(bytes == envelope.seal());
            assert_eq!(check(&bytes), Ok(length));
            let opened = |bytes: &[u8]| Envelope::open_as(bytes, Kind::Messages, 3, PARAMETERS).is_ok();
            for cut in (0..bytes.len().min(64)).chain([bytes.len() - 1]) {
                assert!(check(&bytes[..cut]).is_err_and(|error| error.is_some()) && !opened(&bytes[..cut]));
            }
            let longer = [&bytes[..], &[0]].concat();
            assert!(matches!(check(&longer), Err(Some(WireError::Trailing { .. }))));
            for place in (0..bytes.len().min(64)).chain([bytes.len() - 1]) {
                let mut changed = bytes.clone();
                changed[place] ^= 4;
                assert!(check(&changed).is_err_and(|error| error.is_some()), "{place}");
            }
        }
    }

    #[test]
    fn a_body_of_another_length_than_was_said_is_refused() {
        let writer = || EnvelopeWriter::new(Vec::new(), Kind::Messages, 3, PARAMETERS, 2).unwrap();
        let mut longer = writer();
        longer.write_all(b"ab").unwrap();
        assert!(longer.write_all(b"c").is_err());
        let mut shorter = writer();
        shorter.write_all(b"a").unwrap();
        assert!(shorter.finish().is_err());
    }
}

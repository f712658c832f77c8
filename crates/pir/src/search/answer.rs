//! The answer for a window, and how the querier opens it.

use restante_bfv::{ShortCiphertext, ShortDecryptor};
use restante_wire::{Envelope, Kind, Reader};
use zeroize::Zeroizing;

use crate::PirError;
use crate::search::packing;
use crate::search::query::{QueryDigest, QueryState, check_left, check_preset, secret_key};
use crate::search::scheme::Scheme;
use crate::search::shape::{ANSWER_HEADER_BYTES, MAX_NOTE_BYTES, MAX_SELECTORS, WORD_BYTES};

/// The deviation of decrypted coefficients from integers beyond which they are noise. Answers are at 0.06, ciphertexts under
/// another key at 0.29.
const MAX_DEVIATION: f64 = 0.12;

/// A responder's answer for one window: a ciphertext for each column and group of selectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchAnswer {
    pub(crate) query: QueryDigest,
    pub(crate) window: u64,
    pub(crate) groups: usize,
    pub(crate) note: Vec<u8>,
    /// Column after column.
    pub(crate) ciphertexts: Vec<ShortCiphertext>,
}

impl SearchAnswer {
    /// The version of the format.
    pub const VERSION: u16 = 1;

    /// The window's number.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The responder's note, in the clear.
    pub fn note(&self) -> &[u8] {
        &self.note
    }

    /// The number of columns.
    pub fn columns(&self) -> u32 {
        (self.ciphertexts.len() / self.groups) as u32
    }

    /// The answer as a file.
    pub fn to_file(&self, scheme: &Scheme) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.query);
        body.extend_from_slice(&self.window.to_le_bytes());
        body.extend_from_slice(&self.columns().to_le_bytes());
        body.extend_from_slice(&(self.groups as u32).to_le_bytes());
        body.extend_from_slice(&(self.note.len() as u32).to_le_bytes());
        body.extend_from_slice(&self.note);
        self.ciphertexts.iter().for_each(|ciphertext| ciphertext.encode(scheme.short_moduli(), &mut body));
        let (kind, parameters) = (Kind::SearchAnswer, scheme.preset().id());
        Envelope { kind, version: Self::VERSION, parameters, body: &body }.seal()
    }

    /// Reads what [`SearchAnswer::to_file`] wrote.
    ///
    /// # Errors
    ///
    /// [`PirError::Wire`] if it is malformed, of another length than its first fields imply, or for another preset.
    pub fn from_file(scheme: &Scheme, bytes: &[u8]) -> Result<Self, PirError> {
        let envelope = Envelope::open_as(bytes, Kind::SearchAnswer, Self::VERSION, scheme.preset().id())?;
        let mut reader = Reader::new("search answer", envelope.body);
        let (query, window, columns) = (reader.array()?, reader.u64()?, reader.u32()? as usize);
        let groups = reader.count("number of groups of a search answer", 1..=MAX_SELECTORS as u32)?;
        let note_bytes = reader.count("size of a search answer's note", 0..=MAX_NOTE_BYTES as u32)?;
        let (degree, moduli) = (scheme.preset().degree, scheme.short_moduli());
        let ciphertexts = columns.saturating_mul(groups);
        let expected = ciphertexts.saturating_mul(moduli.ciphertext_bytes(degree)).saturating_add(note_bytes);
        check_left(&reader, "search answer", expected)?;
        let note = reader.bytes(note_bytes)?.to_vec();
        let ciphertexts = (0..ciphertexts)
            .map(|_| ShortCiphertext::decode(degree, moduli, &mut reader))
            .collect::<Result<_, _>>()?;
        reader.finish()?;
        Ok(Self { query, window, groups, note, ciphertexts })
    }

    /// The size of the file.
    pub fn file_bytes(&self, scheme: &Scheme) -> usize {
        Envelope::OVERHEAD_BYTES
            + ANSWER_HEADER_BYTES
            + self.note.len()
            + self.ciphertexts.len() * scheme.short_moduli().ciphertext_bytes(scheme.preset().degree)
    }
}

/// An opened answer: for each selector the chunks of its bucket. Wiped when it is dropped.
pub struct Opened {
    chunk_bytes: usize,
    columns: usize,
    /// Selector after selector, column after column.
    chunks: Zeroizing<Vec<u8>>,
    deviation: f64,
}

impl Opened {
    /// The number of columns.
    pub fn columns(&self) -> u32 {
        self.columns as u32
    }

    /// The chunks of a selector's bucket, one after the other; none for a selector that the query does not have.
    pub fn chunks(&self, selector: usize) -> impl Iterator<Item = &[u8]> {
        let bytes = self.columns * self.chunk_bytes;
        let own = self.chunks.get(selector * bytes..(selector + 1) * bytes).unwrap_or_default();
        own.chunks_exact(self.chunk_bytes)
    }

    /// The largest standard deviation, over the ciphertexts, of what was rounded away to get integers: 0.29 would be noise. A tool
    /// for tests; it must not influence anything that others see.
    pub fn deviation(&self) -> f64 {
        self.deviation
    }
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl QueryState {
    /// Decrypts an answer.
    ///
    /// The result must have no effect that the responder can see, and neither may an error.
    ///
    /// # Errors
    ///
    /// [`PirError::Wire`] for another preset than the query's, [`PirError::OtherSearch`] for an answer to another query, [`PirError::Noise`] for a ciphertext that does not decrypt,
    /// which an honest responder does not make.
    pub fn open(&self, scheme: &Scheme, answer: &SearchAnswer) -> Result<Opened, PirError> {
        let (shape, degree) = (self.shape, scheme.preset().degree);
        check_preset(Kind::SearchState, scheme, self.preset)?;
        let groups = shape.groups(self.selectors);
        if answer.query != self.query || answer.groups != groups {
            return Err(PirError::OtherSearch);
        }
        let secret = secret_key(scheme, &self.secret).over(scheme.answers());
        let decryptor = ShortDecryptor::new(&secret).map_err(restante_bfv::BfvError::from)?;
        let t = scheme.plaintext();
        let unscale = t.multiplier(t.inv(scheme.answer_factor()));
        // y_s^i for each selector s of a group
        let powers: Vec<Vec<_>> = packing::roots(t, shape.sharing())
            .map_err(restante_bfv::BfvError::from)?
            .into_iter()
            .map(|root| {
                let powers = std::iter::successors(Some(t.reduce(1)), |power| Some(t.mul(*power, root)));
                powers.take(shape.sharing()).map(|power| t.multiplier(power)).collect()
            })
            .collect();
        let (chunk_bytes, columns) = (shape.chunk_bytes(scheme.preset()), answer.columns() as usize);
        let words = degree >> shape.sharing_bits;
        let mut chunks = Zeroizing::new(vec![0; self.selectors * columns * chunk_bytes]);
        let mut deviation = 0f64;
        for (index, ciphertext) in answer.ciphertexts.iter().enumerate() {
            let (column, group) = (index / groups, index % groups);
            let plaintext = decryptor.decrypt(ciphertext, scheme.short_moduli());
            deviation = deviation.max(plaintext.error_deviation);
            let coefficients: Zeroizing<Vec<u64>> =
                Zeroizing::new(plaintext.coefficients.iter().map(|&value| unscale.mul(t, value)).collect());
            let mut above = 0;
            let first = group * shape.sharing();
            for (selector, powers) in (first..self.selectors).zip(&powers) {
                let start = (selector * columns + column) * chunk_bytes;
                let chunk = chunks[start..start + chunk_bytes].chunks_exact_mut(WORD_BYTES);
                for (place, bytes) in (0..words).zip(chunk) {
                    let terms = coefficients.iter().skip(place).step_by(words).zip(powers);
                    let word = terms.fold(0, |sum, (&c, power)| t.add(sum, power.mul(t, c)));
                    above |= word >> 32;
                    bytes.copy_from_slice(&(word as u32).to_le_bytes());
                }
            }
            if plaintext.error_deviation > MAX_DEVIATION || above != 0 {
                return Err(PirError::Noise { column: column as u32 });
            }
        }
        Ok(Opened { chunk_bytes, columns, chunks, deviation })
    }
}

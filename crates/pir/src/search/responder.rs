//! A responder's work: tables from a query, one pass over a window's chunks, an answer.
//!
//! With h1 and h2 the halves of a bucket's number, E1 and E2 the tables of indicators of the halves, and D the chunks, a column
//! is the sum over h1 of E1\[h1\] times the sum over h2 of E2\[h2\] D\[h1, h2\]: the distributive law leaves one product of
//! ciphertexts for each h1 and column. All tables and chunks are evaluations, and the form of ciphertexts is that of Brakerski,
//! Gentry and Vaikuntanathan, in which products are element by element.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

use restante_bfv::{KeySwitchingKey, Leveled, ShortCiphertext};
use restante_ring::{AlignedVec, Evaluation, Poly, Tiles, for_each, multiply_accumulate_rows};
use restante_scan::{Runner, Scan};
use restante_wire::Kind;

use crate::PirError;
use crate::search::answer::SearchAnswer;
use crate::search::packing::Expander;
use crate::search::query::{Query, QueryDigest, check_note, check_preset};
use crate::search::scheme::Scheme;
use crate::search::shape::{BLOCK_ROWS, COLUMNS, MAX_NOTE_BYTES, Shape, WORD_BYTES};
use crate::search::source::ChunkSource;

/// Shards that each thread gets.
const SHARDS_PER_THREAD: usize = 8;

/// A query with its tables, ready for any number of windows.
#[derive(Debug)]
pub struct PreparedQuery {
    scheme: Scheme,
    query: QueryDigest,
    shape: Shape,
    relinearisation: KeySwitchingKey<u64>,
    groups: Vec<Tables>,
}

/// The tables of one group of selectors.
#[derive(Debug)]
struct Tables {
    outer: Outer,
    /// Blocks of consecutive h2: for each prime, c0 and c1 of the first row, then those of the second, and so on.
    inner: Vec<Vec<Tiles<u64>>>,
}

/// E1.
#[derive(Debug)]
enum Outer {
    /// Computed beforehand, (c0, c1) for each h1.
    Kept(Vec<[Poly<u64, Evaluation>; 2]>),
    /// Computed from the indicators of the two digits when it is needed.
    OnDemand { high: Vec<Leveled<u64>>, low: Vec<Leveled<u64>> },
}

impl PreparedQuery {
    /// Expands a query into its tables: products of the indicators of digits, with the threads of the current pool.
    ///
    /// `keep_outer` says whether the outer table is kept, which takes nearly as much memory as the inner one and saves a
    /// millisecond for each h1 that a window has buckets of: see [`Shape::prepared_bytes`].
    ///
    /// # Errors
    ///
    /// [`PirError::Wire`] if the query was read for another preset.
    pub fn new(scheme: &Scheme, query: &Query, keep_outer: bool) -> Result<Self, PirError> {
        let shape = query.shape();
        check_preset(Kind::SearchQuery, scheme, query.preset())?;
        let expander = Expander::new(scheme);
        let groups = (0..shape.groups(query.selectors()))
            .map(|group| tables(scheme, query, group, &expander, keep_outer))
            .collect();
        Ok(Self {
            scheme: scheme.clone(),
            query: query.digest(),
            shape,
            relinearisation: query.relinearisation().clone(),
            groups,
        })
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The memory that the tables and keys take: what [`Shape::prepared_bytes`] says beforehand.
    pub fn memory_bytes(&self) -> usize {
        let poly =
            |poly: &Poly<u64, Evaluation>| poly.basis().limbs() * poly.basis().degree() * size_of::<u64>();
        let leveled = |all: &[Leveled<u64>]| all.iter().flat_map(Leveled::parts).map(poly).sum::<usize>();
        let tables = self.groups.iter().map(|tables| {
            let outer = match &tables.outer {
                Outer::Kept(entries) => entries.iter().flatten().map(poly).sum(),
                Outer::OnDemand { high, low } => leveled(high) + leveled(low),
            };
            outer + tables.inner.iter().flatten().map(Tiles::memory_bytes).sum::<usize>()
        });
        let keys: usize = self.relinearisation.rows().flatten().map(poly).sum();
        tables.sum::<usize>() + keys
    }

    /// Relinearises a finished sum and shortens it for the answer.
    fn finish(&self, sum: [Poly<u64, Evaluation>; 3]) -> ShortCiphertext {
        let chain = self.scheme.chain();
        let t = self.scheme.plaintext();
        let factor = t.mul(self.scheme.product_factor(), self.scheme.product_factor());
        let sum = Leveled::new(sum.into(), Scheme::INNER, factor);
        let (ciphertext, _) = chain.leave(&chain.relinearise(&sum, &self.relinearisation));
        ShortCiphertext::new(
            self.scheme.answers(),
            &ciphertext.into_coefficient(),
            self.scheme.short_moduli(),
        )
    }
}

/// Expands a group of a query.
fn tables(scheme: &Scheme, query: &Query, group: usize, expander: &Expander, keep_outer: bool) -> Tables {
    let (shape, degree) = (query.shape(), scheme.preset().degree);
    let packed = query.packed(scheme, group);
    let expanded: Mutex<Vec<(usize, Vec<Leveled<u64>>)>> = Mutex::default();
    for_each(degree << 4, packed.iter().enumerate(), |(index, ciphertext)| {
        let count = (shape.indicators() - index * scheme.packing()).min(scheme.packing());
        let indicators = expander.expand(query.galois(), ciphertext.expand(), count);
        let entered = indicators.iter().map(|c| scheme.chain().enter(c, Scheme::TOP)).collect();
        expanded.lock().unwrap_or_else(|error| error.into_inner()).push((index, entered));
    });
    let mut expanded = expanded.into_inner().unwrap_or_else(|error| error.into_inner());
    expanded.sort_by_key(|(index, _)| *index);
    let mut indicators = expanded.into_iter().flat_map(|(_, indicators)| indicators);
    let mut digit = |bits: u32| indicators.by_ref().take(1 << bits).collect::<Vec<_>>();
    let [high, low, inner_high, inner_low] = shape.digit_bits().map(&mut digit);
    let rows = (1 << shape.inner_bits()).min(BLOCK_ROWS);
    let basis = scheme.chain().basis(Scheme::INNER);
    let mut inner: Vec<Vec<Tiles<u64>>> = (0..(1 << shape.inner_bits()) / rows).map(|_| Vec::new()).collect();
    for_each(degree << 4, inner.iter_mut().enumerate(), |(block, tiles)| {
        let entries: Vec<_> = (block * rows..(block + 1) * rows)
            .map(|h2| entry(scheme, query.relinearisation(), &inner_high, &inner_low, h2))
            .collect();
        *tiles = (0..basis.limbs())
            .map(|limb| {
                let mut tiles = Tiles::unfilled(2 * rows, degree);
                let values: Vec<&[u64]> = entries.iter().flatten().map(|part| part.limb(limb)).collect();
                tiles.set_rows(0, &values);
                tiles
            })
            .collect();
    });
    let outer = if keep_outer {
        let zero = Poly::zero(basis);
        let mut entries = vec![[zero.clone(), zero]; 1 << shape.outer_bits()];
        for_each(degree << 4, entries.iter_mut().enumerate(), |(h1, kept)| {
            *kept = entry(scheme, query.relinearisation(), &high, &low, h1);
        });
        Outer::Kept(entries)
    } else {
        Outer::OnDemand { high, low }
    };
    Tables { outer, inner }
}

/// An entry of a table: the product of the indicators of an index' two digits.
pub(crate) fn entry(
    scheme: &Scheme,
    relinearisation: &KeySwitchingKey<u64>,
    high: &[Leveled<u64>],
    low: &[Leveled<u64>],
    index: usize,
) -> [Poly<u64, Evaluation>; 2] {
    let chain = scheme.chain();
    let product = chain.multiply(&high[index / low.len()], &low[index % low.len()]);
    let product = chain.relinearise_and_rescale(&product, relinearisation, Scheme::INNER);
    debug_assert_eq!(product.factor(), scheme.product_factor());
    let mut parts = product.into_parts().into_iter();
    [0, 1].map(|_| parts.next().unwrap_or_else(|| Poly::zero(chain.basis(Scheme::INNER))))
}

/// The pass over a window, for queries of one shape.
pub struct SearchScan<'a, S: ChunkSource + ?Sized> {
    scheme: &'a Scheme,
    queries: &'a [&'a PreparedQuery],
    source: &'a S,
    shape: Shape,
}

/// Some of a window's buckets, in some of its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchShard {
    places: Range<usize>,
    columns: Range<u32>,
}

impl SearchShard {
    /// The number of its chunks that hold something.
    pub fn chunks(&self, source: &(impl ChunkSource + ?Sized)) -> u64 {
        let columns = |place| source.bucket_columns(place).clamp(self.columns.start, self.columns.end);
        self.places.clone().map(|place| u64::from(columns(place) - self.columns.start)).sum()
    }
}

/// The sums of some shards: for each column, for each group of each query, a ciphertext of three parts. They add up in any order.
#[derive(Debug, Clone, Default)]
pub struct SearchSums(BTreeMap<u32, Vec<[Poly<u64, Evaluation>; 3]>>);

impl<'a, S: ChunkSource + ?Sized> SearchScan<'a, S> {
    /// The scan of a window for some queries, which must have the shape that the window was cut for.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] for no query, for queries of different shapes, and for a window with other chunks or buckets or with buckets
    /// that do not ascend.
    pub fn new(queries: &'a [&'a PreparedQuery], source: &'a S) -> Result<Self, PirError> {
        let Some(first) = queries.first() else {
            return Err(PirError::Size {
                what: "the number of queries",
                found: 0,
                expected: "at least 1".into(),
            });
        };
        let (scheme, shape) = (&first.scheme, first.shape);
        let size = |what, found: usize, expected: usize| {
            if found == expected {
                Ok(())
            } else {
                Err(PirError::Size { what, found: found as u64, expected: expected.to_string() })
            }
        };
        for query in queries {
            size(
                "the number of hash bits of a query",
                query.shape.hash_bits as usize,
                shape.hash_bits as usize,
            )?;
            size("the number of selectors that share a ciphertext", query.shape.sharing(), shape.sharing())?;
            size("the degree of a query's ring", query.scheme.preset().degree, scheme.preset().degree)?;
        }
        size("the number of hash bits of the window", source.hash_bits() as usize, shape.hash_bits as usize)?;
        size("the size of the window's chunks", source.chunk_bytes(), shape.chunk_bytes(scheme.preset()))?;
        let buckets = source.buckets();
        let ascending = buckets.windows(2).take_while(|pair| pair[0] < pair[1]).count() + 1;
        size(
            "the number of the window's buckets in ascending order",
            ascending.min(buckets.len()),
            buckets.len(),
        )?;
        let last = buckets.last().copied().unwrap_or(0);
        size("the excess bits of the window's last bucket", (last >> shape.hash_bits) as usize, 0)?;
        Ok(Self { scheme, queries, source, shape })
    }

    /// Shards for so many threads: whole values of h1, so that each has one product, and enough of them that threads end together
    /// and progress can be seen, if there is as much to do.
    pub fn shards(&self, threads: usize) -> Vec<SearchShard> {
        let (buckets, inner_bits) = (self.source.buckets(), self.shape.inner_bits());
        let share = buckets.len().div_ceil(SHARDS_PER_THREAD * threads.max(1)).max(1);
        let mut shards = Vec::new();
        let mut start = 0;
        while start < buckets.len() {
            let mut end = buckets.len().min(start + share);
            let row = buckets[end - 1] >> inner_bits;
            end += buckets[end..].partition_point(|bucket| bucket >> inner_bits == row);
            shards.push(SearchShard { places: start..end, columns: 0..self.source.columns() });
            start = end;
        }
        // Where few rows have many columns, the columns are divided too, though not below what is computed at a time.
        if shards.len() < threads {
            let end = self.source.columns();
            let parts =
                (threads.div_ceil(shards.len().max(1)) as u32).min(end.div_ceil(COLUMNS as u32)).max(1);
            let width = end.div_ceil(parts).next_multiple_of(COLUMNS as u32);
            let divided = |shard: &SearchShard| {
                let places = shard.places.clone();
                (0..end)
                    .step_by(width as usize)
                    .map(move |first| SearchShard {
                        places: places.clone(),
                        columns: first..end.min(first + width),
                    })
                    .collect::<Vec<_>>()
            };
            shards = shards.iter().flat_map(divided).collect();
        }
        shards
    }

    /// The number of groups of all queries.
    fn lanes(&self) -> usize {
        self.queries.iter().map(|query| query.groups.len()).sum()
    }

    fn groups(&self) -> impl Iterator<Item = (&PreparedQuery, &Tables)> {
        self.queries.iter().flat_map(|query| query.groups.iter().map(|tables| (*query, tables)))
    }

    /// Adds the buckets of one h1 to the sums, in some columns.
    fn row(
        &self,
        places: Range<usize>,
        columns: Range<u32>,
        outer: &[[Poly<u64, Evaluation>; 2]],
        work: &mut Work,
        sums: &mut SearchSums,
    ) -> Result<(), PirError> {
        let basis = self.scheme.chain().basis(Scheme::INNER);
        let buckets = self.source.buckets();
        let blocks = 1 << (self.shape.inner_bits() - BLOCK_ROWS.ilog2());
        // For each column and lane: the sum over h2, once there is one.
        let mut inner: Vec<Option<Vec<[Poly<u64, Evaluation>; 2]>>> = vec![None; columns.len()];
        let mut start = places.start;
        while start < places.end {
            let span = buckets[start] / work.span as u32;
            let same = |bucket: &u32| bucket / work.span as u32 == span;
            let end = start + buckets[start..places.end].partition_point(same);
            let buckets = &buckets[start..end];
            for first in columns.clone().step_by(work.group) {
                let group = first..columns.end.min(first + work.group as u32);
                work.read(self.source, start..end, group.clone())?;
                let used = |column: &usize| work.lengths[*column].iter().any(|&len| len > 0);
                let used: Vec<usize> = (0..group.len()).filter(used).collect();
                let inner = &mut inner[(first - columns.start) as usize..][..group.len()];
                for &column in &used {
                    inner[column].get_or_insert_with(|| {
                        let zero = Poly::zero(basis);
                        vec![[zero.clone(), zero]; self.lanes()]
                    });
                }
                for (limb, plan) in basis.plans().iter().enumerate() {
                    used.iter().for_each(|&column| work.transform(plan, column, self.scheme));
                    for (lane, (_, tables)) in self.groups().enumerate() {
                        for &column in &used {
                            let Some(sums) = &mut inner[column] else { continue };
                            let [c0, c1] = &mut sums[lane];
                            let outputs = &mut [c0.limb_mut(limb), c1.limb_mut(limb)];
                            // The sums stay in a cache from one block to the next.
                            work.for_each_block(plan.degree(), column, buckets, |block, rows| {
                                let tiles = &tables.inner[block % blocks][limb];
                                multiply_accumulate_rows(plan, rows, tiles, outputs);
                            });
                        }
                    }
                }
            }
            start = end;
        }
        self.add_products(inner, columns, outer, sums);
        Ok(())
    }

    /// Adds the products of one h1's entries with the sums over h2 to the sums, for each column that has some.
    fn add_products(
        &self,
        inner: Vec<Option<Vec<[Poly<u64, Evaluation>; 2]>>>,
        columns: Range<u32>,
        outer: &[[Poly<u64, Evaluation>; 2]],
        sums: &mut SearchSums,
    ) {
        for (inner, column) in inner.into_iter().zip(columns) {
            let Some(inner) = inner else { continue };
            add_products(sums.0.entry(column).or_insert_with(|| self.zeros()), outer, &inner);
        }
    }

    fn zeros(&self) -> Vec<[Poly<u64, Evaluation>; 3]> {
        let zero = Poly::zero(self.scheme.chain().basis(Scheme::INNER));
        vec![[zero.clone(), zero.clone(), zero]; self.lanes()]
    }

    /// The answers to the queries, once every shard's sums have been added up: one relinearisation for each column and group, with
    /// the threads of the current pool. `note` goes with each answer in the clear.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] for too long a note.
    pub fn finish_answers(
        &self,
        mut sums: SearchSums,
        window: u64,
        note: &[u8],
    ) -> Result<Vec<SearchAnswer>, PirError> {
        check_note("the size of an answer's note", note.len(), MAX_NOTE_BYTES)?;
        let lanes: Vec<&PreparedQuery> = self.groups().map(|(query, _)| query).collect();
        let columns = 0..self.source.columns();
        let all = columns.flat_map(|column| sums.0.remove(&column).unwrap_or_else(|| self.zeros()));
        let mut finished: Vec<Option<ShortCiphertext>> =
            vec![None; lanes.len() * self.source.columns() as usize];
        let work = finished.iter_mut().zip(all).enumerate();
        for_each(self.scheme.preset().degree << 4, work, |(index, (finished, sum))| {
            *finished = Some(lanes[index % lanes.len()].finish(sum));
        });
        let mut answers: Vec<_> = self
            .queries
            .iter()
            .map(|query| SearchAnswer {
                query: query.query,
                window,
                groups: query.groups.len(),
                note: note.to_vec(),
                ciphertexts: Vec::new(),
            })
            .collect();
        let mut finished = finished.into_iter().flatten();
        for _ in 0..self.source.columns() {
            for (answer, query) in answers.iter_mut().zip(self.queries) {
                answer.ciphertexts.extend(finished.by_ref().take(query.groups.len()));
            }
        }
        Ok(answers)
    }
}

impl<S: ChunkSource + ?Sized> Scan for SearchScan<'_, S> {
    type Shard = SearchShard;
    type Partial = SearchSums;
    type Answer = SearchSums;
    type Error = PirError;

    fn empty(&self) -> SearchSums {
        SearchSums::default()
    }

    fn scan(&self, shard: &SearchShard) -> Result<SearchSums, PirError> {
        let mut sums = SearchSums::default();
        let mut work = Work::new(self.scheme, &self.shape, self.lanes());
        let (buckets, inner_bits) = (self.source.buckets(), self.shape.inner_bits());
        let mut start = shard.places.start;
        while start < shard.places.end {
            let row = buckets[start] >> inner_bits;
            let end = start
                + buckets[start..shard.places.end].partition_point(|bucket| bucket >> inner_bits == row);
            let outer: Vec<_> =
                self.groups().map(|(query, tables)| tables.outer(query, row as usize)).collect();
            let mut first = shard.columns.start;
            while first < shard.columns.end {
                let last = shard.columns.end.min(first + COLUMNS as u32);
                self.row(start..end, first..last, &outer, &mut work, &mut sums)?;
                first = last;
            }
            start = end;
        }
        Ok(sums)
    }

    fn merge(&self, sum: &mut SearchSums, partial: SearchSums) {
        for (column, parts) in partial.0 {
            match sum.0.entry(column) {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(parts);
                }
                std::collections::btree_map::Entry::Occupied(mut entry) => {
                    let sums = entry.get_mut().iter_mut().flatten();
                    sums.zip(parts.iter().flatten()).for_each(|(sum, part)| sum.add_assign(part));
                }
            }
        }
    }

    fn finish(&self, sum: SearchSums) -> SearchSums {
        sum
    }
}

impl Tables {
    /// E1\[h1\].
    fn outer(&self, query: &PreparedQuery, h1: usize) -> [Poly<u64, Evaluation>; 2] {
        match &self.outer {
            Outer::Kept(entries) => entries[h1].clone(),
            Outer::OnDemand { high, low } => entry(&query.scheme, &query.relinearisation, high, low, h1),
        }
    }
}

/// A thread's buffers: for the chunks of some columns in some consecutive blocks.
///
/// For one group of selectors that is one column and one block, so that evaluations stay in a second-level cache. For several,
/// whose tables and sums do not fit in any cache, more of both, so that these are read less often.
struct Work {
    /// Consecutive h2.
    span: usize,
    /// Columns.
    group: usize,
    words_per_chunk: usize,
    chunk: Vec<u8>,
    /// For each column the words of the chunks, a place for each h2.
    words: Vec<u32>,
    /// For each column and bucket, how many words come before zeros.
    lengths: Vec<Vec<usize>>,
    /// Evaluations, in the same order.
    rows: AlignedVec<u64>,
}

/// Between rows, so that the same places of several rows are not in one set of a cache.
const ROW_GAP: usize = 24;

impl Work {
    fn new(scheme: &Scheme, shape: &Shape, lanes: usize) -> Self {
        let degree = scheme.preset().degree;
        let words_per_chunk = degree >> shape.sharing_bits;
        let (span, group) = Shape::chunks_at_a_time(lanes);
        let rows = span * group * (degree + ROW_GAP);
        Self {
            span,
            group,
            words_per_chunk,
            chunk: vec![0; words_per_chunk * WORD_BYTES],
            words: vec![0; span * group * words_per_chunk],
            lengths: Vec::new(),
            rows: AlignedVec::from_iter(64, std::iter::repeat_n(0, rows)),
        }
    }

    /// Reads some columns of some buckets.
    fn read(
        &mut self,
        source: &(impl ChunkSource + ?Sized),
        places: Range<usize>,
        columns: Range<u32>,
    ) -> Result<(), PirError> {
        self.lengths.clear();
        let size = self.words_per_chunk;
        for (column, words) in columns.zip(self.words.chunks_exact_mut(self.span * size)) {
            let mut lengths = Vec::with_capacity(places.len());
            for (place, words) in places.clone().zip(words.chunks_exact_mut(size)) {
                let bytes = if column < source.bucket_columns(place) {
                    source.read_chunk(place, column, &mut self.chunk)?.min(self.chunk.len())
                } else {
                    0
                };
                let len = bytes.div_ceil(WORD_BYTES);
                for (word, bytes) in words[..len].iter_mut().zip(self.chunk.chunks_exact(WORD_BYTES)) {
                    let mut array = [0; WORD_BYTES];
                    array.copy_from_slice(bytes);
                    *word = u32::from_le_bytes(array);
                }
                lengths.push(len);
            }
            self.lengths.push(lengths);
        }
        Ok(())
    }

    /// The evaluations of a column's chunks modulo one prime.
    fn transform(&mut self, plan: &restante_ring::NttPlan<u64>, column: usize, scheme: &Scheme) {
        let (t, degree) = (scheme.plaintext().value(), plan.degree());
        let size = self.words_per_chunk;
        let words = self.words[column * self.span * size..].chunks_exact(size);
        let rows = self.rows[column * self.span * (degree + ROW_GAP)..].chunks_exact_mut(degree + ROW_GAP);
        for ((&len, words), row) in self.lengths[column].iter().zip(words).zip(rows) {
            if len > 0 {
                let row = &mut row[..degree];
                plan.lift_words(&words[..len], t, &mut row[..len]);
                plan.forward_short(row, len);
            }
        }
    }

    /// Goes over the blocks that have chunks in a column: with each block's number, and its evaluations with the places of
    /// their buckets' entries in the block's tiles.
    fn for_each_block(
        &self,
        degree: usize,
        column: usize,
        buckets: &[u32],
        mut apply: impl FnMut(usize, &[(&[u64], usize)]),
    ) {
        let rows = self.rows[column * self.span * (degree + ROW_GAP)..].chunks_exact(degree + ROW_GAP);
        let mut chunks =
            buckets.iter().zip(&self.lengths[column]).zip(rows).filter(|((_, len), _)| **len > 0).peekable();
        while let Some(&((&first, _), _)) = chunks.peek() {
            let block = first as usize / BLOCK_ROWS;
            let mut block_rows: [(&[u64], usize); BLOCK_ROWS] = [(&[], 0); BLOCK_ROWS];
            let mut count = 0;
            while let Some(((&bucket, _), row)) =
                chunks.next_if(|((bucket, _), _)| **bucket as usize / BLOCK_ROWS == block)
            {
                block_rows[count] = (&row[..degree], 2 * (bucket as usize % BLOCK_ROWS));
                count += 1;
            }
            apply(block, &block_rows[..count]);
        }
    }
}

/// Adds products of ciphertexts of one outer and one inner table, three parts each, for each lane.
fn add_products(
    sums: &mut [[Poly<u64, Evaluation>; 3]],
    outer: &[[Poly<u64, Evaluation>; 2]],
    inner: &[[Poly<u64, Evaluation>; 2]],
) {
    for ((sum, [e0, e1]), [i0, i1]) in sums.iter_mut().zip(outer).zip(inner) {
        sum[0].mul_add_assign(e0, i0);
        sum[1].mul_add_assign(e0, i1);
        sum[1].mul_add_assign(e1, i0);
        sum[2].mul_add_assign(e1, i1);
    }
}

/// Answers some queries of one shape in one pass over a window, with a runner's threads.
///
/// `finished` is told, from any thread, how many more chunks were gone over. The answers are the same for every number of threads
/// and back end.
///
/// # Errors
///
/// As for [`SearchScan::new`], what the source reports, and [`PirError::Size`] for too long a note.
pub fn respond<S: ChunkSource + ?Sized>(
    queries: &[&PreparedQuery],
    source: &S,
    window: u64,
    note: &[u8],
    runner: &Runner,
    finished: impl Fn(u64) + Sync,
) -> Result<Vec<SearchAnswer>, PirError> {
    let scan = SearchScan::new(queries, source)?;
    let shards = scan.shards(runner.threads());
    let sums = runner.run(&scan, &shards, |shard| finished(shard.chunks(source)))?;
    runner.install(|| scan.finish_answers(sums, window, note))
}

/// [`PreparedQuery::new`] with a runner's threads.
///
/// # Errors
///
/// As for [`PreparedQuery::new`].
pub fn prepare(
    scheme: &Scheme,
    query: &Query,
    keep_outer: bool,
    runner: &Runner,
) -> Result<PreparedQuery, PirError> {
    runner.install(|| PreparedQuery::new(scheme, query, keep_outer))
}

//! Records to buckets to chunks to records, against a search in the clear.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::PirError;

/// A selector and what comes back for it.
type Row = (Vec<u8>, Vec<u8>);

/// All hits, in order: the definition that everything here is compared with.
fn reference(rows: &[Row], selector: &[u8]) -> Vec<Vec<u8>> {
    rows.iter().filter(|(found, _)| found == selector).map(|(_, record)| record.clone()).collect()
}

fn hash(bits: u32, key: u8) -> SelectorHash {
    SelectorHash::with_any_bits(SelectorKind::Bytes, bits, [key; 32])
}

fn window(rows: &[Row], hash: &SelectorHash, chunk_bytes: usize, limits: WindowLimits) -> Window {
    let mut builder = WindowBuilder::new(&[Cut { hash: hash.clone(), chunk_bytes }], limits).unwrap();
    rows.iter().for_each(|(selector, record)| builder.push(selector, record).unwrap());
    builder.seal().unwrap().remove(0)
}

/// The result of the encrypted search: for each selector the chunks of its bucket, zeros if there is none.
fn select(window: &Window, hash: &SelectorHash, selectors: &[Vec<u8>]) -> Vec<Result<Found, PirError>> {
    let mut reading = Reading::new(hash, selectors);
    let mut chunk = vec![0xff; window.chunk_bytes()];
    for column in 0..window.columns() {
        for (place, selector) in selectors.iter().enumerate() {
            match window.buckets().binary_search(&hash.locate(selector).bucket) {
                Ok(bucket) => {
                    let filled = window.read_chunk(bucket, column, &mut chunk).unwrap();
                    assert_eq!(filled == 0, column >= window.bucket_columns(bucket));
                    assert!(chunk[filled..].iter().all(|&byte| byte == 0));
                }
                Err(_) => chunk.fill(0),
            }
            reading.push(place, &chunk).unwrap();
        }
    }
    reading.finish()
}

fn rows(selectors: usize) -> impl Strategy<Value = Vec<Row>> {
    let selector = (0..selectors).prop_map(|number| format!("selector {number}").into_bytes());
    let record = prop_oneof![
        4 => vec(any::<u8>(), 0..40),
        2 => (0usize..300).prop_map(|length| vec![0; length]),
        1 => vec(any::<u8>(), 100..2000),
    ];
    vec((selector, record), 0..60)
}

fn all_selectors(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("selector {number}").into_bytes()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// With 16 buckets and up to 40 selectors most buckets are shared; some selectors have no hit, some many.
    #[test]
    fn every_hit_comes_back_and_nothing_else(
        rows in rows(40), key: u8, bits in 1u32..10, chunk_bytes in 64usize..700, memory_bytes in 0usize..4000
    ) {
        let hash = hash(bits, key);
        let window = window(&rows, &hash, chunk_bytes, WindowLimits { memory_bytes, ..WindowLimits::default() });
        prop_assert!(window.buckets().is_sorted_by(|a, b| a < b));
        prop_assert!(window.buckets().iter().all(|&bucket| bucket < 1 << bits));
        let columns = (0..window.buckets().len()).map(|place| window.bucket_columns(place)).max();
        prop_assert_eq!(window.columns(), columns.unwrap_or(0));
        let selectors = all_selectors(45);
        for (selector, found) in selectors.iter().zip(select(&window, &hash, &selectors)) {
            let found = found.unwrap();
            prop_assert_eq!(&found.records, &reference(&rows, selector));
            prop_assert!(found.is_complete());
            let bucket = hash.locate(selector).bucket;
            let all = rows.iter().filter(|(selector, _)| hash.locate(selector).bucket == bucket).count();
            prop_assert_eq!(found.others as usize + found.records.len(), all);
        }
    }

    #[test]
    fn what_the_limit_on_hits_cuts_off_is_counted(rows in rows(6), key: u8, limit in 0u32..8) {
        let hash = hash(4, key);
        let window = window(&rows, &hash, 128, WindowLimits { hits: Some(limit), ..WindowLimits::default() });
        let selectors = all_selectors(8);
        let mut cut = 0;
        for (selector, found) in selectors.iter().zip(select(&window, &hash, &selectors)) {
            let found = found.unwrap();
            let expected = reference(&rows, selector);
            let kept = expected.len().min(limit as usize);
            prop_assert_eq!(&found.records[..], &expected[..kept]);
            prop_assert_eq!(found.cut_off, (expected.len() - kept) as u64);
            prop_assert_eq!(found.bucket_dropped, 0);
            prop_assert_eq!(found.is_complete(), kept == expected.len());
            cut += found.cut_off;
        }
        prop_assert_eq!(window.dropped(), cut);
    }

    #[test]
    fn what_the_limit_on_columns_drops_is_counted(
        rows in rows(12), key: u8, columns in 1u32..4, hits in proptest::option::of(1u32..4)
    ) {
        let hash = hash(2, key);
        let limits = WindowLimits { columns: Some(columns), hits, ..WindowLimits::default() };
        let window = window(&rows, &hash, 200, limits);
        prop_assert!(window.columns() <= columns);
        let selectors = all_selectors(12);
        let mut by_bucket: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut returned = 0;
        for (selector, found) in selectors.iter().zip(select(&window, &hash, &selectors)) {
            let found = found.unwrap();
            let expected = reference(&rows, selector);
            prop_assert!(expected.starts_with(&found.records));
            prop_assert!(!found.is_complete() || found.records == expected);
            let lost = (expected.len() - found.records.len()) as u64;
            prop_assert!(found.cut_off <= lost && lost <= found.cut_off + u64::from(found.bucket_dropped));
            let sums = by_bucket.entry(hash.locate(selector).bucket).or_insert((0, found.bucket_dropped.into()));
            sums.0 += lost - found.cut_off;
            returned += found.records.len() as u64;
        }
        prop_assert!(by_bucket.values().all(|(lost, dropped)| lost == dropped));
        prop_assert_eq!(window.records() - window.dropped(), returned);
    }

    /// A stream cut into windows finds in each what a search of that part finds.
    #[test]
    fn windows_share_nothing(rows in rows(10), borders in vec(0usize..60, 2), key: u8) {
        let hash = hash(3, key);
        let selectors = all_selectors(10);
        let mut borders: Vec<usize> = borders.iter().map(|&border| border.min(rows.len())).collect();
        borders.extend([0, rows.len()]);
        borders.sort_unstable();
        for part in borders.windows(2).map(|pair| &rows[pair[0]..pair[1]]) {
            let window = window(part, &hash, 64, WindowLimits::default());
            prop_assert_eq!(window.records() as usize, part.len());
            for (selector, found) in selectors.iter().zip(select(&window, &hash, &selectors)) {
                prop_assert_eq!(found.unwrap().records, reference(part, selector));
            }
        }
    }

    #[test]
    fn queries_with_keys_of_their_own_share_the_records(rows in rows(10), chunk_bytes in 64usize..300) {
        let cuts = [hash(4, 1), hash(9, 2), hash(4, 3)].map(|hash| Cut { hash, chunk_bytes });
        let mut builder = WindowBuilder::new(&cuts, WindowLimits::default()).unwrap();
        rows.iter().for_each(|(selector, record)| builder.push(selector, record).unwrap());
        let selectors = all_selectors(10);
        for (window, cut) in builder.seal().unwrap().iter().zip(&cuts) {
            for (selector, found) in selectors.iter().zip(select(window, &cut.hash, &selectors)) {
                prop_assert_eq!(found.unwrap().records, reference(&rows, selector));
            }
        }
    }
}

#[test]
fn records_from_nothing_to_four_mebibytes() {
    let rows: Vec<Row> = [0, 1, 32_768 - 20 - 12, 32_768, 1 << 20, MAX_RECORD_BYTES]
        .into_iter()
        .enumerate()
        .map(|(place, length)| {
            ((place % 2).to_string().into_bytes(), (0..length).map(|byte| (byte % 251) as u8).collect())
        })
        .collect();
    let hash = hash(8, 5);
    // Most of them in a file.
    let limits = WindowLimits { memory_bytes: 1 << 20, ..WindowLimits::default() };
    let window = window(&rows, &hash, 32 << 10, limits);
    let selectors = [b"0".to_vec(), b"1".to_vec(), b"2".to_vec()];
    for (selector, found) in selectors.iter().zip(select(&window, &hash, &selectors)) {
        assert!(found.unwrap().records == reference(&rows, selector));
    }
}

#[test]
fn index_mode_returns_record_i() {
    let hash = SelectorHash::new(SelectorKind::Number, 8, [1; 32]).unwrap();
    let cut = Cut { hash: hash.clone(), chunk_bytes: 64 };
    let mut builder = WindowBuilder::new(&[cut], WindowLimits::default()).unwrap();
    for number in 0..600u64 {
        builder.push(&number_selector(number), format!("record {number}").as_bytes()).unwrap();
    }
    let window = builder.seal().unwrap().remove(0);
    assert_eq!(window.buckets().len(), 256);
    let numbers = [0, 255, 256, 599, 600].map(number_selector).map(|selector| selector.to_vec());
    let found: Vec<_> = select(&window, &hash, &numbers).into_iter().map(Result::unwrap).collect();
    for (found, number) in found.iter().zip([0, 255, 256, 599]) {
        assert_eq!(found.records, [format!("record {number}").into_bytes()]);
    }
    assert!(found[4].records.is_empty());
}

#[test]
fn sizes_outside_their_limits_are_refused() {
    let cut = |chunk_bytes| Cut { hash: hash(8, 0), chunk_bytes };
    for chunk_bytes in [63, (1 << 20) + 1] {
        assert!(WindowBuilder::new(&[cut(chunk_bytes)], WindowLimits::default()).is_err());
    }
    let limits = WindowLimits { records: 2, ..WindowLimits::default() };
    let mut builder = WindowBuilder::new(&[cut(64)], limits).unwrap();
    assert!(builder.push(b"a", &vec![0; MAX_RECORD_BYTES + 1]).is_err());
    builder.push(b"a", b"1").unwrap();
    builder.push(b"a", b"2").unwrap();
    assert!(builder.is_full());
    let refused = builder.push(b"a", b"3");
    assert!(matches!(refused, Err(PirError::Size { found: 3, .. })));
    assert_eq!(builder.records(), 2);
    let window = builder.seal().unwrap().remove(0);
    assert!(window.read_chunk(1, 0, &mut [0; 64]).is_err());
    assert!(window.read_chunk(0, 0, &mut [0; 63]).is_err());
    assert_eq!(window.read_chunk(0, u32::MAX, &mut [1; 64]).unwrap(), 0);
    assert_eq!(window.bucket_columns(1), 0);
}

#[test]
fn a_window_without_records_has_no_columns() {
    let hash = hash(8, 0);
    let window = window(&[], &hash, 64, WindowLimits::default());
    assert_eq!((window.columns(), window.buckets().len(), window.chunks()), (0, 0, 0));
    let found = select(&window, &hash, &[b"a".to_vec()]).remove(0).unwrap();
    assert_eq!(found, Found::default());
}

#[test]
fn missing_columns_are_noticed() {
    let rows = [(b"a".to_vec(), vec![1; 500])];
    let hash = hash(8, 0);
    let window = window(&rows, &hash, 128, WindowLimits::default());
    let mut chunk = [0; 128];
    let mut reading = Reading::new(&hash, &["a"]);
    for column in 0..window.columns() - 1 {
        window.read_chunk(0, column, &mut chunk).unwrap();
        reading.push(0, &chunk).unwrap();
    }
    assert!(reading.push(1, &chunk).is_err());
    assert!(matches!(reading.finish().remove(0), Err(PirError::Bucket { selector: 0, .. })));
}

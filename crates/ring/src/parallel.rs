//! Work on several limbs at a time.

/// Items of work below which threads are not worth their start.
#[cfg(feature = "rayon")]
const MIN_WORDS: usize = 1 << 14;

/// Does something with every item: with the current thread pool's threads if the crate has the feature `rayon` and all
/// items together are `words_per_item` words long enough to be worth it, and otherwise one item after the other.
pub fn for_each<T: Send>(
    words_per_item: usize,
    items: impl Iterator<Item = T>,
    apply: impl Fn(T) + Send + Sync,
) {
    #[cfg(feature = "rayon")]
    {
        use rayon::prelude::*;
        let items: Vec<T> = items.collect();
        if items.len() > 1 && items.len() * words_per_item > MIN_WORDS && rayon::current_num_threads() > 1 {
            items.into_par_iter().with_max_len(1).for_each(apply);
        } else {
            items.into_iter().for_each(apply);
        }
    }
    #[cfg(not(feature = "rayon"))]
    {
        let _ = words_per_item;
        items.for_each(apply);
    }
}

/// Both results, computed at the same time if the crate has the feature `rayon`.
pub fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    #[cfg(feature = "rayon")]
    return rayon::join(a, b);
    #[cfg(not(feature = "rayon"))]
    (a(), b())
}

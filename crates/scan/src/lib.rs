#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use rayon::prelude::*;

/// A linear scan.
///
/// `merge` must be associative and commutative, and `empty` its neutral element, so that the answer does not depend
/// on how shards are grouped: the same bits with any number of threads or machines.
pub trait Scan: Sync {
    /// A part of what is scanned.
    type Shard: Sync;
    /// The contribution of some shards to the answer.
    type Partial: Send;
    /// The result of the whole scan.
    type Answer;
    /// Why a shard could not be scanned.
    type Error: Send;

    /// The contribution of no shard.
    fn empty(&self) -> Self::Partial;

    /// The contribution of one shard: heavy, parallel, no input or output.
    fn scan(&self, shard: &Self::Shard) -> Result<Self::Partial, Self::Error>;

    /// Adds a contribution to another.
    fn merge(&self, sum: &mut Self::Partial, partial: Self::Partial);

    /// The answer, once every shard has contributed.
    fn finish(&self, sum: Self::Partial) -> Self::Answer;
}

/// Executes scans with a fixed number of threads.
#[derive(Debug)]
pub struct Runner {
    pool: rayon::ThreadPool,
}

impl Runner {
    /// A runner with `threads` threads of its own, or one per processor for zero.
    pub fn new(threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        Ok(Self { pool: rayon::ThreadPoolBuilder::new().num_threads(threads).build()? })
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `work` with this runner's threads as the ones that parallel iterators use.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// Scans every shard. `finished` is told of each shard that is done, from any thread.
    ///
    /// The first error stops the scan; shards that are under way are finished and dropped.
    pub fn run<S: Scan>(
        &self,
        scan: &S,
        shards: &[S::Shard],
        finished: impl Fn(&S::Shard) + Sync,
    ) -> Result<S::Answer, S::Error> {
        let sum = self.pool.install(|| {
            shards
                .par_iter()
                .with_max_len(1)
                .map(|shard| {
                    let partial = scan.scan(shard)?;
                    finished(shard);
                    Ok(partial)
                })
                .try_reduce(
                    || scan.empty(),
                    |mut sum, partial| {
                        scan.merge(&mut sum, partial);
                        Ok(sum)
                    },
                )
        })?;
        Ok(scan.finish(sum))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// The number of values below a limit in a shard; a shard with a value above 999 is refused.
    struct Count(u32);

    impl Scan for Count {
        type Shard = Vec<u32>;
        type Partial = usize;
        type Answer = String;
        type Error = u32;

        fn empty(&self) -> usize {
            0
        }

        fn scan(&self, shard: &Vec<u32>) -> Result<usize, u32> {
            match shard.iter().find(|&&value| value > 999) {
                Some(&value) => Err(value),
                None => Ok(shard.iter().filter(|&&value| value < self.0).count()),
            }
        }

        fn merge(&self, sum: &mut usize, partial: usize) {
            *sum += partial;
        }

        fn finish(&self, sum: usize) -> String {
            sum.to_string()
        }
    }

    proptest! {
        #[test]
        fn answers_do_not_depend_on_threads_or_shards(
            values in proptest::collection::vec(0u32..1000, 0..200),
            size in 1usize..50,
            limit in 0u32..1000,
        ) {
            let expected = values.iter().filter(|&&value| value < limit).count().to_string();
            let shards: Vec<Vec<u32>> = values.chunks(size).map(<[u32]>::to_vec).collect();
            for threads in [1, 2, 3] {
                let finished = AtomicUsize::new(0);
                let runner = Runner::new(threads).unwrap();
                let answer = runner.run(&Count(limit), &shards, |_| {
                    finished.fetch_add(1, Ordering::Relaxed);
                });
                prop_assert_eq!(answer, Ok(expected.clone()));
                prop_assert_eq!(finished.into_inner(), shards.len());
                prop_assert_eq!(runner.threads(), threads);
            }
        }
    }

    #[test]
    fn errors_stop_the_scan() {
        let shards = [vec![1], vec![2, 1000], vec![3]];
        assert_eq!(Runner::new(2).unwrap().run(&Count(9), &shards, |_| ()), Err(1000));
    }
}

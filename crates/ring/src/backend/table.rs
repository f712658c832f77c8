//! Makes a table of kernels out of implementations of `Lanes` and `Sums`.

/// Compiles the shared loops for the given target features. `lanes` are tried in order: the first whose length of
/// primes suffices is taken.
macro_rules! vector_kernels {
    (
        $(#[$attribute:meta])*
        $table:ident: Kernels<$word:ty>, features $features:literal,
        lanes { $($bits:literal => $lanes:ty),* ; $last:ty }, sums $sums:ty, otherwise $scalar:path
    ) => {
        $(#[$attribute])*
        pub(in crate::backend) const $table: $crate::backend::Kernels<$word> = {
            use $crate::{
                Modulus, Multiplier,
                backend::{Kernels, elementwise, ntt, sums},
                roots::Roots,
                tile_rows::TileRows,
            };

            #[target_feature(enable = $features)]
            fn prepare(roots: &Roots<$word>) -> ntt::VectorTables<$word> {
                // SAFETY: the processor has this function's features, which are those that the lanes need.
                unsafe { ntt::prepare::<$last>(roots) }
            }

            #[target_feature(enable = $features)]
            fn forward(
                roots: &Roots<$word>,
                tables: &ntt::VectorTables<$word>,
                values: &mut [$word],
                period: usize,
            ) {
                // SAFETY: as in `prepare`; all lanes of a word share one layout of tables.
                let served = unsafe {
                    match roots.modulus.bits() {
                        $(..=$bits => ntt::forward::<$lanes>(&roots.modulus, tables, values, period),)*
                        _ => ntt::forward::<$last>(&roots.modulus, tables, values, period),
                    }
                };
                if !served {
                    ($scalar.forward)(roots, tables, values, period);
                }
            }

            #[target_feature(enable = $features)]
            fn inverse(roots: &Roots<$word>, tables: &ntt::VectorTables<$word>, values: &mut [$word]) {
                // SAFETY: as in `forward`.
                let served = unsafe {
                    match roots.modulus.bits() {
                        $(..=$bits => ntt::inverse::<$lanes>(&roots.modulus, tables, values),)*
                        _ => ntt::inverse::<$last>(&roots.modulus, tables, values),
                    }
                };
                if !served {
                    ($scalar.inverse)(roots, tables, values);
                }
            }

            #[target_feature(enable = $features)]
            fn add(modulus: &Modulus<$word>, a: &mut [$word], b: &[$word]) {
                // SAFETY: as in `prepare`.
                unsafe { elementwise::add::<$last>(modulus, a, b) }
            }

            #[target_feature(enable = $features)]
            fn sub(modulus: &Modulus<$word>, a: &mut [$word], b: &[$word]) {
                // SAFETY: as in `prepare`.
                unsafe { elementwise::sub::<$last>(modulus, a, b) }
            }

            #[target_feature(enable = $features)]
            fn mul(modulus: &Modulus<$word>, a: &mut [$word], b: &[$word]) {
                // SAFETY: as in `prepare`.
                unsafe {
                    match modulus.bits() {
                        $(..=$bits => elementwise::mul::<$lanes>(modulus, a, b),)*
                        _ => elementwise::mul::<$last>(modulus, a, b),
                    }
                }
            }

            #[target_feature(enable = $features)]
            fn mul_add(modulus: &Modulus<$word>, a: &mut [$word], b: &[$word], c: &[$word]) {
                // SAFETY: as in `prepare`.
                unsafe {
                    match modulus.bits() {
                        $(..=$bits => elementwise::mul_add::<$lanes>(modulus, a, b, c),)*
                        _ => elementwise::mul_add::<$last>(modulus, a, b, c),
                    }
                }
            }

            #[target_feature(enable = $features)]
            fn scale(modulus: &Modulus<$word>, a: &mut [$word], factor: Multiplier<$word>) {
                // SAFETY: as in `prepare`.
                unsafe { elementwise::scale::<$last>(modulus, a, factor) }
            }

            #[target_feature(enable = $features)]
            fn combine(
                modulus: &Modulus<$word>,
                out: &mut [$word],
                rows: &[&[$word]],
                weights: &[Multiplier<$word>],
            ) {
                // SAFETY: as in `prepare`.
                unsafe { sums::combine::<$sums>(modulus, out, rows, weights) }
            }

            #[target_feature(enable = $features)]
            fn lift(values: &[$word], half: $word, gap: $word, out: &mut [$word]) {
                // The plain loop, compiled for these features.
                $crate::backend::scalar::lift(values, half, gap, out);
            }

            #[target_feature(enable = $features)]
            fn lift_words(values: &[u32], half: $word, gap: $word, out: &mut [$word]) {
                $crate::backend::scalar::lift_words(values, half, gap, out);
            }

            #[target_feature(enable = $features)]
            fn multiply_accumulate_rows(
                modulus: &Modulus<$word>,
                rows: &[(&[$word], usize)],
                encrypted: TileRows<'_, $word>,
                outputs: &mut [&mut [$word]],
            ) {
                // SAFETY: as in `prepare`.
                unsafe { sums::multiply_accumulate_rows::<$sums>(modulus, rows, encrypted, outputs) }
            }

            #[target_feature(enable = $features)]
            fn multiply_accumulate(
                modulus: &Modulus<$word>,
                plains: &[TileRows<'_, $word>],
                columns: &[TileRows<'_, $word>],
                outputs: &mut [&mut [$word]],
            ) {
                // SAFETY: as in `prepare`.
                unsafe { sums::multiply_accumulate::<$sums>(modulus, plains, columns, outputs) }
            }

            // SAFETY, for every entry: `Kernels::of` is called with a back end that was checked to be available.
            Kernels {
                // SAFETY: see above.
                prepare: |roots| unsafe { prepare(roots) },
                // SAFETY: see above.
                forward: |roots, tables, values, period| unsafe { forward(roots, tables, values, period) },
                // SAFETY: see above.
                inverse: |roots, tables, values| unsafe { inverse(roots, tables, values) },
                // SAFETY: see above.
                add: |modulus, a, b| unsafe { add(modulus, a, b) },
                // SAFETY: see above.
                sub: |modulus, a, b| unsafe { sub(modulus, a, b) },
                // SAFETY: see above.
                mul: |modulus, a, b| unsafe { mul(modulus, a, b) },
                // SAFETY: see above.
                mul_add: |modulus, a, b, c| unsafe { mul_add(modulus, a, b, c) },
                // SAFETY: see above.
                scale: |modulus, a, factor| unsafe { scale(modulus, a, factor) },
                // SAFETY: see above.
                combine: |modulus, out, rows, weights| unsafe { combine(modulus, out, rows, weights) },
                // SAFETY: see above.
                lift: |values, half, gap, out| unsafe { lift(values, half, gap, out) },
                // SAFETY: see above.
                lift_words: |values, half, gap, out| unsafe { lift_words(values, half, gap, out) },
                // SAFETY: see above.
                multiply_accumulate_rows: |modulus, rows, encrypted, outputs| unsafe {
                    multiply_accumulate_rows(modulus, rows, encrypted, outputs)
                },
                // SAFETY: see above.
                multiply_accumulate: |modulus, plains, columns, outputs| unsafe {
                    multiply_accumulate(modulus, plains, columns, outputs)
                },
            }
        };
    };
}

pub(super) use vector_kernels;

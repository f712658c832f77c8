# Chores, in one place. `just` lists them; each is one command that also works without `just`.

default:
    @just --list

# 65,536 real messages, found without telling the detector whose they are
demo:
    cargo run --release -- demo

# Every test
test:
    cargo test --release --workspace

# What must hold before a change lands
ci:
    .ci/run

# Measure everything on this machine; the raw output goes to benchmarks/runs/<date>-<machine>
bench machine:
    benchmarks/run benchmarks/runs/$(date -u +%F)-{{machine}}

# The documentation of all crates
docs:
    cargo doc --release --workspace --no-deps --open

# Formatting and lints alone
lint:
    cargo fmt --all --check
    cargo clippy --release --workspace --all-targets --features restante-bench/criterion --locked -- -D warnings

//! The time that a sender and a recipient spend on one message of a few hundred bytes.

use chacha20::ChaCha20Rng;
use criterion::{Criterion, criterion_group, criterion_main};
use rand_core::SeedableRng;
use restante_client::{Account, BoardId, Period};
use restante_clue::ClueParameters;

const BOARD: BoardId = BoardId([7; 16]);
const DAY: Period = Period(20_000);

fn message(criterion: &mut Criterion) {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let account = Account::random(ClueParameters::STANDARD, &mut rng);
    let sender = account.address().prepare();
    let text = [b'x'; 300];
    let message = sender.write_message(&BOARD, DAY, &text, &mut rng).expect("300 bytes fit");
    criterion.bench_function("seal", |bencher| {
        bencher.iter(|| sender.seal(&BOARD, &message.clue, &text, &mut rng))
    });
    criterion.bench_function("write message", |bencher| {
        bencher.iter(|| sender.write_message(&BOARD, DAY, &text, &mut rng));
    });
    criterion.bench_function("open", |bencher| {
        bencher.iter(|| account.open(&BOARD, &message.clue, &message.payload));
    });
}

criterion_group!(benches, message);
criterion_main!(benches);

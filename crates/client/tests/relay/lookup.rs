//! Names are looked up, and what is sent does not depend on which and whether they are there.

use restante_client::{
    Address, RelayError,
    directory::{self, Entry, query_note, query_shape},
    relay::{Lookup, LookupMachine, Machine, Method, Reply, Request, Response, Retries, Step},
};
use restante_pir::search::{
    ChunkSource, Cut, Query, Scheme, SelectorHash, SelectorKind, Window, WindowBuilder, WindowLimits,
    prepare, respond,
};
use restante_ring::Backend;
use restante_scan::Runner;
use restante_wire::{
    Envelope, Kind,
    relay::{DirectoryInfo, Hex},
};

use crate::world::{NOW, PEOPLE, rng};

/// A relay with a directory. `lie` may change an answer before it is sent.
struct FakeDirectory {
    scheme: Scheme,
    runner: Runner,
    window: Window,
    info: DirectoryInfo,
    lie: Option<Box<dyn FnMut(&Request, Response) -> Reply>>,
}

/// What can be seen of a request: method, path, header, and the body's size.
type Seen = (Method, String, Vec<(&'static str, String)>, usize, u64);

impl FakeDirectory {
    fn new(names: &[&str], key: u8) -> Self {
        let address = PEOPLE[0].account.address();
        let records =
            names.iter().map(|name| (*name, Entry::new(name, address.clone()).unwrap().to_record().unwrap()));
        Self::with_records(&records.collect::<Vec<_>>(), key)
    }

    fn with_records(records: &[(&str, Vec<u8>)], key: u8) -> Self {
        let scheme = Scheme::new(directory::preset(), Backend::best()).unwrap();
        let hash = SelectorHash::new(SelectorKind::Bytes, 8, [key; 32]).unwrap();
        let chunk_bytes = restante_pir::search::Shape::new(8, 1).unwrap().chunk_bytes(scheme.preset());
        let mut builder = WindowBuilder::new(&[Cut { hash, chunk_bytes }], WindowLimits::default()).unwrap();
        for (name, record) in records {
            builder.push(&directory::selector(name).unwrap(), record).unwrap();
        }
        let window = builder.seal().unwrap().remove(0);
        let info = DirectoryInfo {
            version: Hex([key; 16]),
            entries: records.len() as u64,
            schema: directory::schema().unwrap().into(),
            parameters: scheme.preset().id().into(),
            hash_bits: 8,
            hash_key: Hex([key; 32]),
            columns: window.columns(),
            query_bytes: 0,
            answer_bytes: 0,
        };
        Self { scheme, runner: Runner::new(1).unwrap(), window, info, lie: None }
    }

    fn ask(&mut self, request: &Request) -> Reply {
        let (status, body) = match request.path.as_str() {
            "/v1/directory" => (200, serde_json::to_vec(&self.info).unwrap()),
            path if path == format!("/v1/search?version={}", self.info.version) => {
                let query = Query::from_file(&self.scheme, &request.body).unwrap();
                assert_eq!(
                    (query.selectors(), query.shape().hash_bits(), query.shape().sharing()),
                    (1, 8, 1)
                );
                assert_eq!(query.note(), query_note(&query_shape(&self.info).unwrap().0).unwrap());
                let prepared = prepare(&self.scheme, &query, true, &self.runner).unwrap();
                let note = [0; directory::ANSWER_NOTE_BYTES];
                let answers = respond(&[&prepared], &self.window, 0, &note, &self.runner, |_| {}).unwrap();
                (200, answers[0].to_file(&self.scheme))
            }
            _ => (409, vec![]),
        };
        let response = Response { status, headers: vec![], body };
        match &mut self.lie {
            Some(lie) => lie(request, response),
            None => Reply::Answer(response),
        }
    }
}

fn look_up(relay: &mut FakeDirectory, name: &str) -> (Vec<Seen>, Result<Lookup, RelayError>) {
    let mut machine = LookupMachine::new(name, Backend::best(), Retries::default()).unwrap();
    let (mut seen, mut rng) = (Vec::new(), rng(9));
    loop {
        match machine.step() {
            Step::Ask(request) => {
                assert!(request.authorization.is_none());
                let (path, headers) = (request.path.clone(), request.headers.clone());
                seen.push((request.method, path, headers, request.body.len(), request.answer_bytes_max));
                if let Err(error) = machine.respond(relay.ask(&request), NOW, &mut rng) {
                    return (seen, Err(error));
                }
            }
            Step::Wait(_) => {}
            Step::Done => return (seen, Ok(machine.outcome().unwrap().clone())),
        }
    }
}

fn found() -> Lookup {
    let address: Address = PEOPLE[0].account.address().clone();
    Lookup::Found(Box::new(address))
}

#[test]
fn what_is_sent_does_not_depend_on_the_name() {
    let names = ["alice", "Zoë", "名前"];
    let mut relay = FakeDirectory::new(&names, 1);
    let (reference, outcome) = look_up(&mut relay, "alice");
    assert_eq!(outcome.unwrap(), found());
    assert_eq!(reference.len(), 2);
    let long = "x".repeat(directory::MAX_NAME_BYTES);
    for (name, expected) in [
        ("ALICE", found()),
        ("zoë", found()),
        ("名前", found()),
        ("nobody", Lookup::NotFound),
        ("ZOË", Lookup::NotFound),
        (&long, Lookup::NotFound),
    ] {
        let (seen, outcome) = look_up(&mut relay, name);
        assert_eq!(outcome.unwrap(), expected, "{name}");
        assert_eq!(seen, reference, "{name}");
    }
    let wrong = LookupMachine::new("a\nb", Backend::best(), Retries::default());
    assert!(matches!(wrong, Err(RelayError::Client(_))));
}

#[test]
fn nothing_secret_is_in_debug_output() {
    let machine = LookupMachine::new("alice", Backend::best(), Retries::default()).unwrap();
    assert!(!format!("{machine:?}").contains("97") && !format!("{machine:?}").contains("alice"));
}

#[test]
fn a_directory_that_changes_is_asked_again_and_not_for_ever() {
    let mut relay = FakeDirectory::new(&["alice"], 1);
    let mut refused = 0;
    relay.lie = Some(Box::new(move |request, response| {
        refused += u32::from(request.method == Method::Post);
        let changed = request.method == Method::Post && refused == 1;
        Reply::Answer(if changed { Response { status: 409, body: vec![], ..response } } else { response })
    }));
    let (seen, outcome) = look_up(&mut relay, "alice");
    assert_eq!((seen.len(), outcome.unwrap()), (4, found()));
    relay.lie = Some(Box::new(|request, response| {
        let status = if request.method == Method::Post { 409 } else { 200 };
        Reply::Answer(Response { status, ..response })
    }));
    let (seen, outcome) = look_up(&mut relay, "alice");
    assert!(matches!(outcome, Err(RelayError::Refused { status: 409, .. })));
    assert_eq!(seen.len(), 6);
}

#[test]
fn lies_are_an_outcome_and_change_no_request() {
    let reference = look_up(&mut FakeDirectory::new(&["alice"], 1), "alice").0;
    let record = |name: &str| {
        let address = PEOPLE[0].account.address().clone();
        Entry::new(name, address).unwrap().to_record().unwrap()
    };
    // Two entries, one of another name under this one's hash, one that is no entry.
    for records in [
        vec![("alice", record("alice")), ("alice", record("Alice"))],
        vec![("alice", record("mallory"))],
        vec![("alice", vec![1, 2, 3])],
    ] {
        let (seen, outcome) = look_up(&mut FakeDirectory::with_records(&records, 1), "alice");
        assert!(matches!(outcome, Ok(Lookup::Unreadable { .. })), "{outcome:?}");
        assert_eq!(seen, reference);
    }
    // A ciphertext that was changed, another answer, none.
    let lies: [fn(Response) -> Response; 3] = [
        |response| {
            let envelope = Envelope::open(&response.body).unwrap();
            let (parameters, mut body) = (envelope.parameters, envelope.body.to_vec());
            body.iter_mut().skip(200).for_each(|byte| *byte ^= 0x5a);
            let body = Envelope { kind: Kind::SearchAnswer, version: 1, parameters, body: &body }.seal();
            Response { body, ..response }
        },
        |response| Response { body: response.body[..1000].to_vec(), ..response },
        |response| Response { body: vec![], ..response },
    ];
    for lie in lies {
        let mut relay = FakeDirectory::new(&["alice"], 1);
        relay.lie = Some(Box::new(move |request, response| {
            Reply::Answer(if request.method == Method::Post { lie(response) } else { response })
        }));
        let (seen, outcome) = look_up(&mut relay, "alice");
        assert!(matches!(outcome, Ok(Lookup::Unreadable { .. })), "{outcome:?}");
        assert_eq!(seen, reference);
    }
}

#[test]
fn a_directory_of_another_kind_is_refused_before_anything_is_asked() {
    let changes: [fn(&mut DirectoryInfo); 4] = [
        |info| info.parameters = Hex([0; 8]),
        |info| info.schema = Hex([0; 8]),
        |info| info.columns = directory::MAX_COLUMNS + 1,
        |info| info.hash_bits = 25,
    ];
    for change in changes {
        let mut relay = FakeDirectory::new(&["alice"], 1);
        change(&mut relay.info);
        let (seen, outcome) = look_up(&mut relay, "alice");
        assert_eq!(seen.len(), 1);
        assert!(outcome.is_err());
    }
}

//! Published vectors of what payloads are encrypted with: HPKE with X-Wing (draft-ietf-hpke-pq), X-Wing (its draft) and ML-KEM-768
//! (NIST's ACVP). `testvectors/published` names the documents.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::convert::Infallible;

use hpke::{
    Deserializable, OpModeR, OpModeS, Serializable,
    aead::ChaCha20Poly1305,
    kdf::HkdfSha256,
    kem::{Kem, XWing},
    setup_receiver, setup_sender_with_rng,
};
use ml_kem::{B32, DecapsulationKey, EncapsulationKey, KeyExport, MlKem768, Seed, kem::Decapsulate};
use rand_core::{TryCryptoRng, TryRng};
use serde_json::Value;

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn digits(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap().as_bytes();
    text.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The randomness that a vector says.
struct Given(Vec<u8>);

impl TryRng for Given {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("encapsulation asks for bytes")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("encapsulation asks for bytes")
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        out.copy_from_slice(&self.0);
        Ok(())
    }
}

impl TryCryptoRng for Given {}

type PublicKey = <XWing as Kem>::PublicKey;
type PrivateKey = <XWing as Kem>::PrivateKey;
type EncappedKey = <XWing as Kem>::EncappedKey;

#[test]
fn x_wing_is_that_of_its_draft() {
    let file = read(include_str!("../../../testvectors/published/xwing.json"));
    let vectors = file["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 3);
    for vector in vectors {
        let private = PrivateKey::from_bytes(&digits(&vector["sk"])).unwrap();
        let public = PublicKey::from_bytes(&digits(&vector["pk"])).unwrap();
        assert_eq!(XWing::sk_to_pk(&private).to_bytes()[..], digits(&vector["pk"]));
        let (secret, encapsulated) =
            XWing::encap_with_rng(&public, None, &mut Given(digits(&vector["eseed"]))).unwrap();
        assert_eq!(encapsulated.to_bytes()[..], digits(&vector["ct"]));
        assert_eq!(secret.0[..], digits(&vector["ss"]));
        let encapsulated = EncappedKey::from_bytes(&digits(&vector["ct"])).unwrap();
        assert_eq!(XWing::decap(&private, None, &encapsulated).unwrap().0[..], digits(&vector["ss"]));
    }
}

#[test]
fn hpke_is_that_of_its_draft() {
    let file = read(include_str!("../../../testvectors/published/hpke.json"));
    let vector = &file["vector"];
    // X-Wing, HKDF-SHA256, ChaCha20-Poly1305: what payloads use.
    assert_eq!(
        (&vector["kem_id"], &vector["kdf_id"], &vector["aead_id"]),
        (&0x647a.into(), &1.into(), &3.into())
    );
    let (private, public) = XWing::derive_keypair(&digits(&vector["ikmR"]));
    assert_eq!(private.to_bytes()[..], digits(&vector["skRm"]));
    assert_eq!(public.to_bytes()[..], digits(&vector["pkRm"]));
    let info = digits(&vector["info"]);
    let (encapsulated, mut sender) = setup_sender_with_rng::<ChaCha20Poly1305, HkdfSha256, XWing>(
        &OpModeS::Base,
        &public,
        &info,
        &mut Given(digits(&vector["ikmE"])),
    )
    .unwrap();
    assert_eq!(encapsulated.to_bytes()[..], digits(&vector["enc"]));
    let encapsulated = EncappedKey::from_bytes(&digits(&vector["enc"])).unwrap();
    let mut receiver =
        setup_receiver::<ChaCha20Poly1305, HkdfSha256, XWing>(&OpModeR::Base, &private, &encapsulated, &info)
            .unwrap();
    let encryptions = vector["encryptions"].as_array().unwrap();
    assert_eq!(encryptions.len(), 2);
    for encryption in encryptions {
        let [aad, text, sealed] = ["aad", "pt", "ct"].map(|name| digits(&encryption[name]));
        assert_eq!(sender.seal(&text, &aad).unwrap(), sealed);
        assert_eq!(receiver.open(&sealed, &aad).unwrap(), text);
    }
}

#[test]
fn ml_kem_768_is_that_of_nist() {
    let file = read(include_str!("../../../testvectors/published/ml-kem-768.json"));
    let case = &file["key_generation"];
    let seed: Seed = digits(&case["d"]).into_iter().chain(digits(&case["z"])).collect();
    let key = DecapsulationKey::<MlKem768>::from_seed(seed);
    assert_eq!(key.encapsulation_key().to_bytes()[..], digits(&case["ek"]));

    let case = &file["encapsulation"];
    let key = EncapsulationKey::<MlKem768>::new(&digits(&case["ek"]).into_iter().collect()).unwrap();
    let message: B32 = digits(&case["m"]).into_iter().collect();
    let (ciphertext, secret) = key.encapsulate_deterministic(&message);
    assert_eq!(ciphertext[..], digits(&case["c"]));
    assert_eq!(secret[..], digits(&case["k"]));

    // With the changed ciphertext the secret is the pseudorandom one of the implicit rejection.
    let case = &file["decapsulation"];
    #[expect(deprecated, reason = "the vectors have expanded keys")]
    let key =
        DecapsulationKey::<MlKem768>::from_expanded(&digits(&case["dk"]).into_iter().collect()).unwrap();
    let cases = case["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        let secret = key.decapsulate(&digits(&case["c"]).into_iter().collect());
        assert_eq!(secret[..], digits(&case["k"]), "{}", case["reason"]);
    }
}

//! Webhooks with tokens of OpenID Connect, whose issuers change their keys.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everflow_dispatch::receiver::ReceiverServer;
use everflow_dispatch::resources::RECEIVERS;
use everflow_json::{Value, json};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::world::{GIT_REPOSITORIES, World, call};

const ISSUER: &str = "http://issuer";

/// A key with a name.
struct Key {
    id: &'static str,
    pair: EcdsaKeyPair,
}

impl Key {
    fn new(id: &'static str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
        Key { id, pair }
    }

    /// As issuers publish it.
    fn published(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let half = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&point[range]);
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "x": half(1..33), "y": half(33..65)})
    }

    fn bearer(&self, world: &World) -> String {
        let header = json!({"alg": "ES256", "kid": self.id}).to_string();
        let expires = world.env.clock.now().seconds + 36_000;
        let claims = json!({
            "iss": ISSUER, "aud": "notification-controller", "sub": "ci", "exp": expires,
        });
        let [header, claims] =
            [header, claims.to_string()].map(|text| URL_SAFE_NO_PAD.encode(text));
        let signed = format!("{header}.{claims}");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature.unwrap());
        format!("Bearer {signed}.{signature}")
    }
}

/// An issuer: what it publishes, and how often it was asked for its keys.
#[derive(Clone, Default)]
struct Issuer(Arc<Mutex<(Vec<Value>, usize, bool)>>);

impl Issuer {
    fn start(world: &World) -> Self {
        let issuer = Issuer::default();
        let mut incoming = world.dialer.listen("issuer", 80);
        let serving = issuer.clone();
        tokio::spawn(async move {
            while let Some(stream) = incoming.recv().await {
                tokio::spawn(serving.clone().answer(stream));
            }
        });
        issuer
    }

    fn publishes(&self, keys: &[&Key]) {
        self.0.lock().unwrap().0 = keys.iter().map(|key| key.published()).collect();
    }

    fn set_away(&self, is_away: bool) {
        self.0.lock().unwrap().2 = is_away;
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().1
    }

    async fn answer(self, mut stream: DuplexStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let text = {
            let mut state = self.0.lock().unwrap();
            if state.2 {
                return;
            }
            match head.starts_with(b"GET /keys ") {
                true => {
                    state.1 += 1;
                    json!({"keys": Value::Array(state.0.clone())})
                }
                false => json!({
                    "issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys"),
                    "id_token_signing_alg_values_supported": ["ES256"],
                }),
            }
        };
        let (text, length) = (text.to_string(), text.to_string().len());
        let answer = format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{text}"
        );
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

async fn world() -> World {
    let world = World::new().await;
    let spec = json!({"url": "https://git/x", "interval": "1h"});
    world.object(&GIT_REPOSITORIES, "one", spec).await;
    let spec = json!({
        "type": "generic-oidc",
        "oidcProviders": [{
            "issuerURL": ISSUER,
            "validations": [{"expression": "claims.sub == 'ci'", "message": "not the CI"}],
        }],
        "resources": [{"kind": "GitRepository", "name": "one"}],
    });
    world.object(&RECEIVERS, "ci", spec).await;
    world
}

async fn status(server: &ReceiverServer, path: &str, bearer: &str) -> u16 {
    call(server, path, &[("authorization", bearer)], "{}")
        .await
        .0
}

#[tokio::test(start_paused = true)]
async fn tokens_are_verified_with_the_keys_of_their_issuer_also_after_these_were_rotated() {
    let mut world = world().await;
    let (old, new, foreign) = (Key::new("old"), Key::new("new"), Key::new("foreign"));
    let issuer = Issuer::start(&world);
    issuer.publishes(&[&old]);
    let server = world.start_receivers().await;
    let path = world.path("ci").await;
    for _ in 0..3 {
        assert_eq!(status(&server, &path, &old.bearer(&world)).await, 200);
    }
    assert_eq!(issuer.asked(), 1, "keys are kept");
    // Another key under the known name, and a name that is not known: the issuer is asked for the second, and not for
    // each of many.
    let mut liar = Key::new("foreign");
    liar.id = "old";
    assert_eq!(status(&server, &path, &liar.bearer(&world)).await, 400);
    world.sleep(11).await;
    for _ in 0..20 {
        assert_eq!(status(&server, &path, &foreign.bearer(&world)).await, 400);
    }
    assert_eq!(issuer.asked(), 2);

    world.sleep(11).await;
    issuer.publishes(&[&new, &old]);
    assert_eq!(status(&server, &path, &new.bearer(&world)).await, 200);
    assert_eq!(status(&server, &path, &old.bearer(&world)).await, 200);
    assert_eq!(issuer.asked(), 3);
    // A key that is withdrawn counts no longer than keys are kept.
    issuer.publishes(&[&new]);
    world.sleep(3_700).await;
    assert_eq!(status(&server, &path, &old.bearer(&world)).await, 400);
    assert_eq!(status(&server, &path, &new.bearer(&world)).await, 200);
    // While the issuer is away, what is known counts for a day.
    issuer.set_away(true);
    world.sleep(3_700).await;
    assert_eq!(status(&server, &path, &new.bearer(&world)).await, 200);
    world.sleep(86_400).await;
    assert_eq!(status(&server, &path, &new.bearer(&world)).await, 400);
}

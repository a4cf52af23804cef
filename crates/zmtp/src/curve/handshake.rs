//! The handshake: how two who know one key agree on keys that nobody else has, and that are forgotten afterwards.
//!
//! ```text
//! client                                                       server
//! HELLO     1 0 | 00*72 | C' | n | box[00*64](c' -> S)         ->
//!           <-   nonce | box[S' | cookie](s -> C')             WELCOME
//! INITIATE  cookie | n | box[C | vouch | properties](c' -> S') ->        vouch = nonce | box[C' | S](c -> S')
//!           <-   n | box[properties](s' -> C')                 READY
//! ```
//! Large letters are public keys, small ones secret; with a dash they live as long as the connection.

use super::keys::{CurveKey, KeyPair, random_bytes};
use super::sealing::{chosen, counted, seal, unseal};
use crate::command::{IDENTITY, READY, SOCKET_TYPE, expect, metadata, peer};
use crate::error::ZmtpError;
use bytes::{Buf, Bytes};
use crypto_box::{PublicKey, SalsaBox};
use std::io;

const HELLO: &[u8] = b"\x05HELLO";
const WELCOME: &[u8] = b"\x07WELCOME";
const INITIATE: &[u8] = b"\x08INITIATE";

/// What a connection has for itself: keys and numbers never used before and never again.
#[derive(Debug)]
pub struct Fresh {
    keys: KeyPair,
    nonce: [u8; 16],
    cookie: [u8; 96],
}

impl Fresh {
    /// From the system's randomness.
    ///
    /// # Errors
    /// When the system has none to give.
    pub fn random() -> io::Result<Fresh> {
        Ok(Fresh { keys: KeyPair::random()?, nonce: random_bytes()?, cookie: random_bytes()? })
    }
}

/// Who calls.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) server: PublicKey,
    pub(super) keys: KeyPair,
    pub(super) identity: Bytes,
    pub(super) fresh: Fresh,
}

impl Client {
    pub(super) fn new(server: CurveKey, keys: KeyPair, identity: Bytes, fresh: Fresh) -> Client {
        Client { server: PublicKey::from(server), keys, identity, fresh }
    }

    pub(super) fn hello(&self, counter: u64) -> Vec<u8> {
        let secret = SalsaBox::new(&self.server, &self.fresh.keys.secret);
        let proof = seal(&secret, counted(b"CurveZMQHELLO---", counter), &[0; 64]);
        [HELLO, &[1, 0], &[0; 72], self.fresh.keys.public.as_bytes(), &counter.to_be_bytes(), &proof].concat()
    }

    /// Answers WELCOME: the keys of the channel, and INITIATE.
    pub(super) fn initiate(&self, welcome: Bytes, counter: u64) -> Result<(SalsaBox, Vec<u8>), ZmtpError> {
        let mut welcome = expect(welcome, WELCOME, "WELCOME", 16)?;
        let nonce = chosen(b"WELCOME-", &chunk(&mut welcome));
        let secret = SalsaBox::new(&self.server, &self.fresh.keys.secret);
        let mut plain = unseal(&secret, nonce, &welcome, "WELCOME")?;
        if plain.len() != 32 + 96 {
            return Err(ZmtpError::Malformed { command: "WELCOME" });
        }
        let server = PublicKey::from(chunk::<32>(&mut plain));
        let channel = SalsaBox::new(&server, &self.fresh.keys.secret);
        let vouching = [self.fresh.keys.public.as_bytes().as_slice(), self.server.as_bytes()].concat();
        let vouch = SalsaBox::new(&server, &self.keys.secret);
        let vouch = seal(&vouch, chosen(b"VOUCH---", &self.fresh.nonce), &vouching);
        let properties: [(_, &[u8]); 2] = [(SOCKET_TYPE, b"DEALER"), (IDENTITY, &self.identity)];
        let known = [self.keys.public.as_bytes(), &self.fresh.nonce[..], &vouch, &metadata(&properties)];
        let sealed = seal(&channel, counted(b"CurveZMQINITIATE", counter), &known.concat());
        Ok((channel, [INITIATE, &plain[..], &counter.to_be_bytes(), &sealed].concat()))
    }
}

/// Reads READY: its number, and the server's identity.
pub(super) fn ready(ready: Bytes, channel: &SalsaBox) -> Result<(u64, Bytes), ZmtpError> {
    let mut ready = expect(ready, READY, "READY", 8)?;
    let counter = ready.get_u64();
    let properties = unseal(channel, counted(b"CurveZMQREADY---", counter), &ready, "READY")?;
    Ok((counter, peer(properties, "READY", &["ROUTER"])?))
}

/// Who is called. Whoever knows its key is let in.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) keys: KeyPair,
    pub(super) fresh: Fresh,
}

impl Server {
    /// Answers HELLO: its number, the key of the client for this connection, and WELCOME.
    pub(super) fn welcome(&self, hello: Bytes) -> Result<(u64, PublicKey, Vec<u8>), ZmtpError> {
        let mut hello = expect(hello, HELLO, "HELLO", 194)?;
        if hello.len() != 194 || hello[..2] != [1, 0] {
            return Err(ZmtpError::Malformed { command: "HELLO" });
        }
        hello.advance(2 + 72);
        let client = PublicKey::from(chunk::<32>(&mut hello));
        let counter = hello.get_u64();
        let secret = SalsaBox::new(&client, &self.keys.secret);
        unseal(&secret, counted(b"CurveZMQHELLO---", counter), &hello, "HELLO")?;
        let told = [self.fresh.keys.public.as_bytes().as_slice(), &self.fresh.cookie].concat();
        let sealed = seal(&secret, chosen(b"WELCOME-", &self.fresh.nonce), &told);
        Ok((counter, client, [WELCOME, &self.fresh.nonce[..], &sealed].concat()))
    }

    /// Answers INITIATE: its number, the keys of the channel, the client's identity, and READY.
    pub(super) fn ready(
        &self,
        initiate: Bytes,
        client: &PublicKey,
        counter: u64,
    ) -> Result<(u64, SalsaBox, Bytes, Vec<u8>), ZmtpError> {
        const COMMAND: &str = "INITIATE";
        let mut initiate = expect(initiate, INITIATE, COMMAND, 96 + 8)?;
        // The cookie has been sent, so it is no secret of ours; and a connection that brings another one ends.
        if chunk::<96>(&mut initiate) != self.fresh.cookie {
            return Err(ZmtpError::Sealed { command: COMMAND });
        }
        let number = initiate.get_u64();
        let channel = SalsaBox::new(client, &self.fresh.keys.secret);
        let mut plain = unseal(&channel, counted(b"CurveZMQINITIATE", number), &initiate, COMMAND)?;
        if plain.len() < 32 + 96 {
            return Err(ZmtpError::Malformed { command: COMMAND });
        }
        let known = PublicKey::from(chunk::<32>(&mut plain));
        let nonce = chosen(b"VOUCH---", &chunk(&mut plain));
        let vouch = SalsaBox::new(&known, &self.fresh.keys.secret);
        let vouch = unseal(&vouch, nonce, &plain.split_to(80), COMMAND)?;
        if vouch[..] != [client.as_bytes().as_slice(), self.keys.public.as_bytes()].concat() {
            return Err(ZmtpError::Sealed { command: COMMAND });
        }
        let identity = peer(plain, COMMAND, &["DEALER", "REQ"])?;
        let sealed = seal(
            &channel,
            counted(b"CurveZMQREADY---", counter),
            &metadata(&[(SOCKET_TYPE, b"ROUTER"), (IDENTITY, b"")]),
        );
        Ok((number, channel, identity, [READY, &counter.to_be_bytes(), &sealed].concat()))
    }
}

/// The first bytes, which are known to be there.
fn chunk<const N: usize>(bytes: &mut Bytes) -> [u8; N] {
    let mut chunk = [0; N];
    bytes.copy_to_slice(&mut chunk);
    chunk
}

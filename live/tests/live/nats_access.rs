//! A real nats-server that does not let everybody in: users, tokens that change, certificates of one's own; and one that comes late.

use carom_gateway::bus::{Nats as Client, NatsError, NatsOptions};
use carom_live::certificates::Authority;
use carom_live::nats::Nats;
use carom_live::process::{Folder, Port, Running, command, signal, tail};
use carom_live::{ms, program, until};
use std::path::PathBuf;
use tokio::net::TcpStream;

fn options(nats: &Nats) -> NatsOptions {
    NatsOptions::new(nats.url()).name("gateway")
}

/// Sooner or later: on a busy machine an attempt may take longer than it is given.
async fn let_in(options: NatsOptions) -> Client {
    until(ms(30_000), async || Client::connect(options.clone()).await).await
}

/// For this reason, likewise.
async fn kept_out(options: NatsOptions, reason: impl Fn(&NatsError) -> bool) {
    until(ms(30_000), async || match Client::connect(options.clone()).await {
        Ok(client) => panic!("it was let in: {client:?}"),
        Err(error) if reason(&error) => Ok(()),
        Err(error) => Err(format!("{error:?}")),
    })
    .await
}

async fn refused(options: NatsOptions) {
    kept_out(options, |error| matches!(error, NatsError::Refused { .. })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_let_in_with_the_password() {
    let nats = Nats::configured("authorization { user: asha, password: sesame }").await;
    let folder = Folder::new("nats-password", None);
    let (right, wrong) = (folder.write("right", "sesame\n"), folder.write("wrong", "simsim\n"));
    let client = let_in(options(&nats).user("asha", &right)).await;
    assert!(client.is_connected());
    refused(options(&nats).user("asha", &wrong)).await;
    refused(options(&nats).user("ravi", &right)).await;
    refused(options(&nats)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_changed_is_presented_when_nats_is_back() {
    let mut nats = Nats::configured("authorization { token: yesterday }").await;
    let folder = Folder::new("nats-token", None);
    let file = folder.write("token", "yesterday\n");
    let client = let_in(options(&nats).token_file(&file)).await;
    nats.stop();
    until(ms(30_000), async || if client.is_connected() { Err("it is connected") } else { Ok(()) }).await;
    nats.configure("authorization { token: today }");
    nats.restart().await;
    folder.write("token", "today\n");
    until(ms(30_000), async || if client.is_connected() { Ok(()) } else { Err("it is not connected") }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_trusted_that_somebody_vouches_for_here_alone() {
    let (authority, other) = (Authority::new("own"), Authority::new("other"));
    let (folder, identity) = (Folder::new("nats-tls", None), authority.identity("127.0.0.1"));
    let certificate = folder.write("server.pem", &identity.certificate).display().to_string();
    let key = folder.write("server.key", &identity.key).display().to_string();
    let nats = Nats::configured(&format!("tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}")).await;
    let client = let_in(options(&nats).extra_roots(authority.pem())).await;
    assert!(client.is_connected());
    for strange in [options(&nats), options(&nats).extra_roots(other.pem())] {
        let untrusted = |error: &NatsError| match error {
            NatsError::Unreachable { source, .. } => source.to_string().contains("certificate"),
            _ => false,
        };
        kept_out(strange, untrusted).await;
    }
}

/// Whoever has roots of their own wants TLS, also from a server that can do without.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_said_in_the_clear_where_there_are_roots() {
    let nats = Nats::start().await;
    let options = options(&nats).extra_roots(Authority::new("own").pem());
    kept_out(options, |error| matches!(error, NatsError::Unreachable { .. })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_waits_for_nats() {
    let mut nats = Nats::start().await;
    nats.stop();
    let mut gateway = Gateway::start(&nats, "adapter = \"outside\"");
    gateway.says("waiting for NATS").await;
    signal("HUP", &[gateway.running.id()]);
    nats.restart().await;
    gateway.serves().await;
    // What it was told while it waited.
    gateway.says("the keys were made for this run, and stay").await;
}

/// As it is in a cluster whose members start one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_waits_for_jetstream_to_have_a_leader() {
    let nobody = Port::chosen();
    let routes = format!("routes: [\"nats-route://{}\"]", nobody.address());
    let cluster = format!("server_name: a\ncluster {{ name: c, listen: \"127.0.0.1:-1\", {routes} }}");
    let mut nats = Nats::configured(&cluster).await;
    let mut gateway = Gateway::start(&nats, "url = \"ws://127.0.0.1:1\"");
    gateway.says("waiting for NATS").await;
    assert!(tail(&gateway.log).contains("NATS did not answer what was asked of $JS.API"), "{}", tail(&gateway.log));
    nats.stop();
    nats.configure("");
    nats.restart().await;
    gateway.serves().await;
}

/// `carom gateway` on this NATS.
struct Gateway {
    running: Running,
    log: PathBuf,
    port: Port,
    _folder: Folder,
}

impl Gateway {
    /// With one feed, of which this is said.
    fn start(nats: &Nats, feed: &str) -> Gateway {
        let (folder, port) = (Folder::new("gateway-waits", None), Port::chosen());
        let config = format!(
            "[gateway]\nlisten = \"{}\"\nbus = \"nats\"\n[gateway.nats]\nurl = \"{}\"\n\
             [[feed]]\nbroker = \"simulated\"\nuser = \"demo\"\n{feed}\n",
            port.address(),
            nats.url()
        );
        folder.write("carom.toml", &config);
        let mut command = command(&program("carom"), None, &folder);
        command.args(["gateway", "-c", "carom.toml"]);
        let log = folder.path().join("log");
        Gateway { running: Running::start(command, &log), log, port, _folder: folder }
    }

    async fn says(&mut self, words: &str) {
        until(ms(60_000), async || {
            assert!(self.running.ended().is_none(), "{}", tail(&self.log));
            if tail(&self.log).contains(words) { Ok(()) } else { Err(tail(&self.log)) }
        })
        .await;
    }

    async fn serves(&mut self) {
        until(ms(60_000), async || TcpStream::connect(self.port.address()).await.map(drop)).await;
        assert!(self.running.ended().is_none(), "{}", tail(&self.log));
    }
}

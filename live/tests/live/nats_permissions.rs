//! Shares at a real nats-server that does not allow everything: whoever cannot take part is told at once, and what is missing.

use carom_gateway::bus::{Nats as Client, NatsOptions};
use carom_live::nats::Nats;
use carom_live::{ms, until};
use tokio::time::Instant;

/// A server at which everybody may publish to these.
async fn allows(publish: &str) -> Nats {
    let user = format!("{{ user: all, password: all, permissions: {{ publish: [{publish}], subscribe: \">\" }} }}");
    Nats::configured(&format!("authorization {{ users: [{user}] }}\nno_auth_user: all")).await
}

async fn connect(nats: &Nats) -> Client {
    Client::connect(NatsOptions::new(nats.url()).name("gateway")).await.expect("NATS is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_write_leases_is_told_so() {
    let nats = allows(r#""carom.>", "$JS.API.>", "_INBOX.>""#).await;
    let error = connect(&nats).await.share("simulated", "demo").await.expect_err("it cannot write").to_string();
    for part in ["asked of $KV.carom_leases.carom.simulated.demo", "Permissions Violation for Publish"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_shares_of_one_gateway_are_never_owners_at_a_time() {
    let nats = allows(
        r#""carom.>", "$JS.API.STREAM.*.KV_carom_leases", "$JS.API.DIRECT.GET.KV_carom_leases.>", "$KV.>", "_INBOX.>""#,
    )
    .await;
    let client = connect(&nats).await;
    let one = client.share("simulated", "demo").await.expect("it may");
    let two = client.share("simulated", "demo").await.expect("it may, too");
    assert_ne!(one.member(), two.member());
    let owns = || [&one, &two].map(|share| share.roles().borrow().owns(Instant::now()).is_some());
    until(ms(30_000), async || if owns().contains(&true) { Ok(()) } else { Err("nobody owns it") }).await;
    // For longer than anybody waits before it claims.
    let end = Instant::now() + ms(5_000);
    while Instant::now() < end {
        assert_ne!(owns(), [true, true]);
        tokio::time::sleep(ms(5)).await;
    }
}

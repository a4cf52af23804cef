//! Kang's own client, as it is published, reads what the program shows of itself.

use carom_live::process::{Folder, command};
use carom_live::sidecar::Sidecar;
use carom_live::{admin, ms, until};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where `live/install.sh` has put it; none where there is no Node.js for it.
fn modules() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    if target.join("live-npm-left-out").exists() {
        return None;
    }
    let modules = target.join("live-npm/node_modules");
    assert!(modules.join("kang").exists(), "{} is missing: `make live` makes it", modules.display());
    Some(modules.canonicalize().expect("it is there"))
}

#[tokio::test]
async fn kangs_client_lists_what_the_program_holds() {
    let Some(modules) = modules() else {
        return testkit::skip("no Node.js with npm, which kang needs");
    };
    let backend = admin::echo().await;
    let sidecar = Sidecar::start(&format!("resolve = [\"{backend}\"]\nprotocol = \"tcp\"\n")).await;
    let address = admin::address(&sidecar).await;
    admin::say(sidecar.address()).await.expect("it is served");

    let folder = Folder::new("kang", None);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/kang.js");
    let seen = until(ms(30_000), async || {
        let mut node = command(Path::new("node"), None, &folder);
        let output = node.arg(&script).arg(&modules).arg(address.to_string()).output().expect("node runs");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        serde_json::from_slice::<Value>(&output.stdout).map_err(|error| error.to_string())
    })
    .await;

    let service = seen["service"].as_object().expect("services by name").values().next().expect("there is one");
    assert!(service["name"].is_string() && service["version"].is_string(), "{service}");
    assert!(seen["stats"].is_object(), "{seen}");
    let (id, pool) = seen["pool"].as_object().and_then(|pools| pools.iter().next()).expect("there is a pool");
    assert_eq!(&pool["pool"], id);
    assert_eq!(pool["state"], "running");
    let (key, known) = pool["backends"].as_object().and_then(|known| known.iter().next()).expect("it has a backend");
    assert_eq!((&known["address"], &known["port"]), (&Value::from("127.0.0.1"), &Value::from(backend.port())));
    assert!(pool["connections"][key].is_object(), "{pool}");
    assert!(pool["options"]["maximum"].as_u64() > Some(0), "{pool}");

    // What is asked for one by one is the same.
    let ids: Value =
        serde_json::from_str(&admin::get(address, "/kang/objects/pool").await.expect("it answers")).expect("JSON");
    assert_eq!(ids, Value::from(vec![id.clone()]));
    let one: Value =
        serde_json::from_str(&admin::get(address, &format!("/kang/obj/pool/{id}")).await.expect("it answers"))
            .expect("JSON");
    assert_eq!(one["backends"], pool["backends"]);
    sidecar.stop();
}

//! `carom gateway`: what it serves, to whom, from where, and how it ends.
#[cfg(target_os = "linux")]
use crate::program::{Running, carom};
use crate::serving::{Serving, folder, inside, ran};

#[tokio::test]
async fn without_a_word_it_is_a_demonstration() {
    let folder = folder("gateway-demo", &[]);
    let gateway = Serving::gateway(&folder, &[]).await;
    let (key, url, banner) = (gateway.key(), &gateway.url, &gateway.banner);
    assert!(banner.contains("feed: demo at simulated from an exchange started here, ws://127.0.0.1:"), "{banner}");
    assert!(banner.contains(&format!("CAROM_KEY={key} carom watch --url {url} NSE:SBIN")), "{banner}");
    let ran = gateway.watched(&key, &["--count", "20", "-m", "depth", "NSE:SBIN", "NSE:RELIANCE", "NSE:NOPE"]).await;
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 20), "{ran:?}");
    assert_eq!(ran.stderr, "refused: NSE:NOPE: unknown symbol\n");
    let ran = gateway.watched("guessed", &["NSE:SBIN"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.starts_with("error: the gateway refuses the key: "), "{ran:?}");
    gateway.running.signal("-HUP").await;
    let mut running = gateway.running;
    running.told("made for this run").await;
    let ended = running.end("-TERM").await;
    assert_eq!((ended.code, &*ended.stderr), (Some(0), "stopping\n"), "{ended:?}");
}

#[tokio::test]
async fn those_who_serve_go_on_when_nobody_reads_what_they_say() {
    let folder = folder("gateway-unread", &[]);
    for name in ["gateway", "exchange"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = inside(&folder, &[name, "--listen", "127.0.0.1:0"]);
        let mut serving = Running::writing_to(&mut command, writer);
        serving.told("warning: what is served cannot be shown: ").await;
        assert_eq!(serving.end("-TERM").await.code, Some(0), "{name}");
    }
}

#[tokio::test]
async fn clients_are_told_when_it_stops_and_come_back() {
    let folder = folder("gateway-back", &[]);
    let made = carom(["key", "new", "--user", "demo", "--file", folder.join("keys.toml").to_str().unwrap()]).await;
    let key = made.stdout.trim();
    let gateway = Serving::gateway(&folder, &["--keys", "keys.toml"]).await;
    assert!(gateway.banner.contains("keys: 1 (--keys)") && !gateway.banner.contains(key), "{}", gateway.banner);
    let mut watching = Running::of(gateway.watch(key, &["NSE:SBIN"]));
    watching.line().await;
    assert_eq!(gateway.running.end("-INT").await.code, Some(0));
    let told = watching.told("trying again").await;
    assert!(told.contains("closed by the gateway (1001"), "{told}");
    let port = gateway.url.rsplit(':').next().unwrap();
    let again = inside(&folder, &["gateway", "--keys", "keys.toml", "--listen", &format!("localhost:{port}")]);
    let _again = Serving::start(again).await;
    watching.told("connected again").await;
    watching.line().await;
    assert_eq!(watching.end("-TERM").await.code, Some(0));
}

#[tokio::test]
async fn keys_are_read_again_when_it_is_told_to() {
    let folder = folder("gateway-keys", &[]);
    let file = folder.join("keys.toml");
    let new = || async { carom(["key", "new", "--user", "demo", "--file", file.to_str().unwrap()]).await.stdout };
    let old = new().await;
    std::fs::write(folder.join("carom.toml"), "[gateway]\nkeys = \"keys.toml\"\n").unwrap();
    let mut gateway = Serving::gateway(&folder, &["-c", "carom.toml"]).await;
    assert!(gateway.banner.contains("keys: 1 (carom.toml:2: gateway.keys)"), "{}", gateway.banner);

    std::fs::write(&file, "[[key]]\nuser = 7\n").unwrap();
    gateway.running.signal("-HUP").await;
    let told = gateway.running.told("stay as they were").await;
    assert!(told.contains("keys.toml:2: key.user: an integer is no text; accepted: "), "{told}");
    assert_eq!(gateway.watched(old.trim(), &["--count", "1", "NSE:SBIN"]).await.code, Some(0));

    let mut watching = Running::of(gateway.watch(old.trim(), &["NSE:SBIN"]));
    watching.line().await;
    std::fs::remove_file(&file).unwrap();
    let other = new().await;
    gateway.running.signal("-HUP").await;
    assert_eq!(gateway.running.told("read again").await, "keys were read again: there are 1");
    let told = watching.told("closed by the gateway").await;
    assert!(told.contains("(4401 key revoked)"), "{told}");
    watching.told("error: the gateway refuses the key").await;
    assert_eq!(gateway.watched(other.trim(), &["--count", "1", "NSE:SBIN"]).await.code, Some(0));
    assert_eq!(gateway.watched(old.trim(), &["--count", "1", "NSE:SBIN"]).await.code, Some(1));
}

#[tokio::test]
async fn without_a_key_that_works_it_says_how_to_make_one() {
    let folder = folder("gateway-begin", &[("keys.toml", "")]);
    let mut gateway = Serving::gateway(&folder, &["--keys", "keys.toml"]).await;
    let nobody = "warning: there are no keys at all, and nobody is let in";
    assert_eq!(gateway.running.told("warning").await, nobody);
    assert!(!gateway.banner.contains("carom watch"), "{}", gateway.banner);
    gateway.running.signal("-HUP").await;
    gateway.running.told("there are 0").await;
    assert_eq!(gateway.running.told("warning").await, nobody, "as at the start");

    let shown = gateway.banner.lines().find_map(|line| line.strip_prefix("  carom ")).unwrap().to_owned();
    assert_eq!(shown, "key new --user demo --broker simulated --file keys.toml");
    let words: Vec<_> = shown.split(' ').collect();
    let made = ran(&folder, &words).await;
    ran(&folder, &["key", "new", "--user", "ben", "--file", "keys.toml"]).await;
    let process = gateway.running.child.id().unwrap();
    assert!(gateway.banner.ends_with(&format!("\n  kill -HUP {process}\n")), "{}", gateway.banner);
    gateway.running.signal("-HUP").await;
    gateway.running.told("there are 2").await;
    assert_eq!(gateway.running.told("warning").await, "warning: there is a key for ben at simulated, and no feed");
    assert_eq!(gateway.watched(made.stdout.trim(), &["--count", "1", "NSE:SBIN"]).await.code, Some(0));
}

#[tokio::test]
async fn keys_may_be_in_the_config_and_whoever_lacks_a_feed_is_named() {
    let folder = folder("gateway-listed", &[]);
    let made = carom(["key", "new", "--user", "asha"]).await;
    let feed = "[[feed]]\nbroker = \"simulated\"\nuser = \"ben\"\nsymbols = 50\nrate = 10\nseed = 3\n";
    std::fs::write(folder.join("carom.toml"), format!("{feed}\n{}", made.stderr)).unwrap();
    let mut gateway = Serving::gateway(&folder, &["-c", "carom.toml"]).await;
    assert!(gateway.banner.contains("50 symbols, 10 ticks/s, seed 3"), "{}", gateway.banner);
    assert!(gateway.banner.contains("--user ben --broker simulated 2>> carom.toml\n"), "{}", gateway.banner);
    assert_eq!(gateway.running.told("key for").await, "warning: there is a key for asha at simulated, and no feed");
    assert_eq!(gateway.running.told("feed of").await, "warning: there is a feed of ben at simulated, and no key");
    let ran = gateway.watched(made.stdout.trim(), &["NSE:SBIN"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("BROKER_ERROR"), "{ran:?}");
}

#[tokio::test]
async fn with_a_certificate_it_serves_tls() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let config = "[gateway]\ntls_certificate = \"chain.pem\"\ntls_key = \"key.pem\"\n";
    let files =
        [("chain.pem", &*made.cert.pem()), ("key.pem", &made.signing_key.serialize_pem()), ("carom.toml", config)];
    let folder = folder("gateway-tls", &files);
    let gateway = Serving::gateway(&folder, &["-c", "carom.toml"]).await;
    assert!(gateway.url.starts_with("wss://127.0.0.1:"), "{}", gateway.banner);
    let ca = folder.join("chain.pem");
    let ran = gateway.watched(&gateway.key(), &["--ca", ca.to_str().unwrap(), "--count", "3", "NSE:SBIN"]).await;
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 3), "{ran:?}");
    let plain = gateway.url.replace("wss://", "ws://");
    let ran = carom(["watch", "--url", &plain, "--key", "x", "NSE:SBIN"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.ends_with("; if it speaks TLS, it is perhaps wss://\n"), "{ran:?}");
}

#[tokio::test]
async fn a_certificate_that_is_no_servers_comes_with_advice() {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let files = [("chain.pem", &*params.self_signed(&key).unwrap().pem()), ("key.pem", &key.serialize_pem())];
    let folder = folder("gateway-issuer", &files);
    let gateway = Serving::gateway(&folder, &["--tls-certificate", "chain.pem", "--tls-key", "key.pem"]).await;
    let ca = folder.join("chain.pem");
    let ran = gateway.watched(&gateway.key(), &["--ca", ca.to_str().unwrap(), "NSE:SBIN"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(!ran.stderr.contains("CaUsedAsEndEntity"), "{ran:?}");
    assert!(
        ran.stderr.ends_with("basicConstraints=critical,CA:FALSE -addext subjectAltName=IP:127.0.0.1\n"),
        "{ran:?}"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn as_many_files_may_be_open_as_the_system_allows() {
    let folder = folder("gateway-files", &[]);
    let program = env!("CARGO_BIN_EXE_carom");
    let limited = |limits: &str| {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", &format!("{limits}; exec {program} gateway --listen 127.0.0.1:0")]);
        command.current_dir(&folder).stdin(std::process::Stdio::null()).kill_on_drop(true);
        command
    };
    let mut gateway = Serving::start(limited("ulimit -Sn 100; ulimit -Hn 300")).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", gateway.running.child.id().unwrap())).unwrap();
    let files: Vec<_> =
        limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().collect();
    assert_eq!(files[3..5], ["300", "300"], "{limits}");
    let told = gateway.running.told("warning").await;
    assert!(told.contains("allows 300 open files") && told.contains("limits.clients is 10000"), "{told}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_does_not_outlive_its_terminal() {
    use crate::program::PATIENCE;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    use tokio::time::timeout;
    let folder = folder("gateway-terminal", &[]);
    let (ours, far) = crate::terminal::terminal();
    let mut command = inside(&folder, &["gateway", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(far).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let reading = tokio::task::spawn_blocking(move || {
        let last = BufReader::new(ours).lines().map_while(Result::ok).find(|line| line.contains("time.sleep"));
        assert!(last.is_some(), "it has started");
    });
    // Our side is gone after that, as it is when a window is closed.
    timeout(PATIENCE, reading).await.expect("it starts").unwrap();
    let id = child.id().unwrap().to_string();
    let ended = async {
        loop {
            assert!(tokio::process::Command::new("kill").args(["-HUP", &id]).status().await.unwrap().success());
            // Whoever is being started by another test may have our side for a moment, and then the terminal is there.
            if let Ok(status) = timeout(std::time::Duration::from_secs(1), child.wait()).await {
                return status.unwrap();
            }
        }
    };
    assert_eq!(timeout(PATIENCE, ended).await.expect("it ends").code(), Some(0));
}

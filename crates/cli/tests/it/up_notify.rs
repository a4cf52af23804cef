//! What `carom up` tells a service manager, as systemd has it.

use crate::program::PATIENCE;
use crate::serving::{folder, inside};
use crate::up::{Backend, Client, Up, tcp};
use std::path::PathBuf;
use tokio::net::UnixDatagram;
use tokio::time::timeout;

const ANY: &str = "127.0.0.1:0";

/// The next thing that is told.
async fn told(manager: &UnixDatagram) -> String {
    let mut bytes = vec![0; 4096];
    let count = timeout(PATIENCE, manager.recv(&mut bytes)).await.expect("something is told").unwrap();
    String::from_utf8(bytes[..count].to_vec()).unwrap()
}

/// The next thing that is not a sign of life.
async fn news(manager: &UnixDatagram) -> String {
    loop {
        let told = told(manager).await;
        if told != "WATCHDOG=1\n" {
            return told;
        }
    }
}

#[tokio::test]
async fn it_is_ready_reads_its_config_again_and_ends() {
    let mut a = Backend::start("a").await;
    let config = tcp("a", ANY, &a, "");
    let folder = folder("notify", &[("c.toml", &config)]);
    // Names of sockets are short.
    let socket = PathBuf::from(format!("/tmp/carom-notify-{}", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let manager = UnixDatagram::bind(&socket).unwrap();
    let mut command = inside(&folder, &["up", "-c", "c.toml"]);
    command.env("NOTIFY_SOCKET", &socket).env_remove("WATCHDOG_USEC");
    let mut up = Up::of(&folder, command).await;
    assert_eq!(told(&manager).await, "READY=1\nSTATUS=serving 1 service\n");
    let mut client = Client::of(up.service("a")).await;
    a.connected(3).await;
    for config in [&*config, "broken"] {
        up.reload(config).await;
        let reloading = told(&manager).await;
        let (begins, rest) = reloading.split_once("\nMONOTONIC_USEC=").unwrap();
        let (time, _) = rest.split_once('\n').unwrap();
        assert_eq!((begins, time.parse::<u64>().is_ok_and(|time| time > 0)), ("RELOADING=1", true), "{reloading}");
        assert_eq!(told(&manager).await, "READY=1\nSTATUS=serving 1 service\n");
    }
    up.running.signal("-TERM").await;
    assert!(told(&manager).await.starts_with("STOPPING=1\n"));
    assert_eq!(client.say("still").await, "a: still\n");
    drop(client);
    timeout(PATIENCE, up.running.child.wait()).await.expect("it ends").unwrap();
    std::fs::remove_file(&socket).unwrap();
}

/// What is said to run does, before a reload and after it.
#[tokio::test]
async fn the_gateway_is_told_of_as_well() {
    let a = Backend::start("a").await;
    let gateway = "[gateway]\nlisten = \"127.0.0.1:0\"\nkeys = \"keys.toml\"\n";
    let both = tcp("a", ANY, &a, "") + gateway;
    for (name, config, status) in [("both", &*both, "1 service and the gateway"), ("alone", gateway, "the gateway")] {
        let folder = folder(&format!("notify-gateway-{name}"), &[("c.toml", config), ("keys.toml", "")]);
        let socket = PathBuf::from(format!("/tmp/carom-notify-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let manager = UnixDatagram::bind(&socket).unwrap();
        let mut command = inside(&folder, &["up", "-c", "c.toml"]);
        command.env("NOTIFY_SOCKET", &socket).env_remove("WATCHDOG_USEC");
        let mut up = Up::of(&folder, command).await;
        let ready = format!("READY=1\nSTATUS=serving {status}\n");
        assert_eq!(told(&manager).await, ready);
        for _ in 0..2 {
            up.reload(config).await;
            assert!(told(&manager).await.starts_with("RELOADING=1\n"));
            assert_eq!(told(&manager).await, ready);
        }
        std::fs::remove_file(&socket).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_socket_may_be_in_no_file_system_and_wants_signs_of_life() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram as Blocking};
    let a = Backend::start("a").await;
    let folder = folder("notify-abstract", &[("c.toml", &tcp("a", ANY, &a, ""))]);
    let name = format!("carom-notify-{}", std::process::id());
    let manager = Blocking::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    manager.set_nonblocking(true).unwrap();
    let manager = UnixDatagram::from_std(manager).unwrap();
    let mut command = inside(&folder, &["up", "-c", "c.toml"]);
    command.env("NOTIFY_SOCKET", format!("@{name}")).env("WATCHDOG_USEC", "20000").env_remove("WATCHDOG_PID");
    let up = Up::of(&folder, command).await;
    assert!(news(&manager).await.starts_with("READY=1\n"));
    for _ in 0..5 {
        assert_eq!(told(&manager).await, "WATCHDOG=1\n");
    }
    up.running.signal("-TERM").await;
    assert!(news(&manager).await.starts_with("STOPPING=1\n"));
}

#[tokio::test]
async fn a_manager_that_is_not_there_is_no_reason_not_to_run() {
    let a = Backend::start("a").await;
    let folder = folder("notify-nobody", &[("c.toml", &tcp("a", ANY, &a, ""))]);
    for (socket, problem) in [
        ("/nowhere/at/all", "warning: the service manager cannot be told: "),
        ("relative", "warning: NOTIFY_SOCKET \"relative\" cannot be used: neither a path nor a name after @"),
    ] {
        let mut command = inside(&folder, &["up", "-c", "c.toml"]);
        command.env("NOTIFY_SOCKET", socket);
        let mut up = Up::of(&folder, command).await;
        up.running.told(problem).await;
        Client::of(up.service("a")).await;
        assert_eq!(up.running.end("-TERM").await.code, Some(0));
    }
}

/// A watchdog that is meant for somebody else is none of its business.
#[tokio::test]
async fn a_watchdog_of_another_process_gets_no_signs_of_life() {
    let a = Backend::start("a").await;
    let folder = folder("notify-other", &[("c.toml", &tcp("a", ANY, &a, ""))]);
    let socket = PathBuf::from(format!("/tmp/carom-notify-other-{}", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let manager = UnixDatagram::bind(&socket).unwrap();
    let mut command = inside(&folder, &["up", "-c", "c.toml"]);
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "2000").env("WATCHDOG_PID", "1");
    let up = Up::of(&folder, command).await;
    let ended = up.running.end("-TERM").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(told(&manager).await.starts_with("READY=1\n"));
    assert!(told(&manager).await.starts_with("STOPPING=1\n"), "and nothing between");
    std::fs::remove_file(&socket).unwrap();
}

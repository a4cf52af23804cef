//! A PostgreSQL cluster of its own: made with initdb, killed with all its processes, counted in pg_stat_activity.

use crate::process::{Folder, Port, Running, User, command, signal, tail};
use crate::{AnyError, Server, ms, until};
use bb8_postgres::tokio_postgres::{self, Client, Config, NoTls};
use carom::Backend;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// The user of the pools. It may connect without a password.
pub const USER: &str = "carom";
/// A user with a password.
pub const LOCKED: &str = "locked";
pub const PASSWORD: &str = "open sesame";

pub struct Postgres {
    running: Option<Running>,
    port: Port,
    folder: Folder,
    user: Option<User>,
    settings: Vec<String>,
}

impl Postgres {
    /// A cluster for 40 clients; 3 of those places are kept for the observer.
    pub async fn start() -> Postgres {
        Postgres::start_with(&["max_connections=40"]).await
    }

    /// A cluster with these settings.
    pub async fn start_with(settings: &[&str]) -> Postgres {
        let mut postgres = Postgres::new(settings);
        postgres.make();
        postgres.restart().await;
        let observer = postgres.observer().await;
        let roles = format!("CREATE ROLE {USER} LOGIN; CREATE ROLE {LOCKED} LOGIN PASSWORD '{PASSWORD}'");
        observer.batch_execute(&roles).await.expect("roles can be created");
        postgres
    }

    /// A cluster with a copy of the data of this one, which must be stopped: for many clusters, as `initdb` takes long.
    pub async fn start_copy(&self, settings: &[&str]) -> Postgres {
        assert!(self.running.is_none(), "it runs");
        let mut copy = Postgres::new(settings);
        let mut cp = command(Path::new("cp"), copy.user.as_ref(), &copy.folder);
        let output = cp.arg("-a").arg(self.data()).arg(copy.data()).output().expect("cp can be run");
        assert!(output.status.success(), "cp: {}", String::from_utf8_lossy(&output.stderr));
        copy.restart().await;
        copy
    }

    fn new(settings: &[&str]) -> Postgres {
        let user = User::instead_of_root("postgres");
        let folder = Folder::new("postgres", user.as_ref());
        let settings = settings.iter().map(|setting| setting.to_string()).collect();
        Postgres { running: None, port: Port::chosen(), folder, user, settings }
    }

    fn make(&self) {
        let mut initdb = command(&programs().join("initdb"), self.user.as_ref(), &self.folder);
        initdb.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"]);
        initdb.arg(self.data()).stdout(Stdio::null());
        let output = initdb.output().expect("initdb can be run");
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        let who = format!("host all {LOCKED} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n");
        fs::write(self.data().join("pg_hba.conf"), who).expect("the cluster is ours");
    }

    /// A connection that no pool has anything to do with, as the superuser.
    pub async fn observer(&self) -> Client {
        connect(&config(&Backend::fixed(self.address()), "postgres", "observer")).await.expect("it serves")
    }

    /// Stops it with `pg_ctl stop -m fast`; how long that took.
    pub fn stop_fast(&mut self) -> Duration {
        let mut running = self.running.take().expect("it runs");
        let mut stop = command(&programs().join("pg_ctl"), self.user.as_ref(), &self.folder);
        stop.args(["stop", "-m", "fast", "-w", "-t", "120", "-D"]).arg(self.data());
        let start = Instant::now();
        let output = stop.output().expect("pg_ctl can be run");
        let took = start.elapsed();
        assert!(output.status.success(), "pg_ctl: {}", String::from_utf8_lossy(&output.stderr));
        running.wait(Duration::from_secs(10));
        took
    }

    /// How many connections to it are established, those that have said nothing yet included.
    pub fn established(&self) -> usize {
        const ESTABLISHED: &str = "01";
        let table = fs::read_to_string("/proc/net/tcp").expect("Linux tells of its sockets");
        let port = format!(":{:04X}", self.address().port());
        let to_it = |line: &&str| {
            let mut fields = line.split_whitespace().skip(2);
            fields.next().is_some_and(|remote| remote.ends_with(&port)) && fields.next() == Some(ESTABLISHED)
        };
        table.lines().filter(to_it).count()
    }

    /// What the server has written to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// As `pg_ctl stop -m fast`: sessions are ended, then the server. It is gone when this returns.
    pub fn stop(&mut self) {
        let mut running = self.running.take().expect("it runs");
        signal("INT", &[running.id()]);
        running.wait(Duration::from_secs(10));
        assert!(running.ended().is_some(), "postgres does not stop:\n{}", tail(&self.log_file()));
    }

    /// Stops all its processes where they stand: the system still accepts connections, and no response is sent.
    pub fn freeze(&self) {
        let parent = self.stop_parent();
        signal("STOP", &children_of(parent));
    }

    pub fn thaw(&self) {
        let parent = self.running.as_ref().expect("it runs").id();
        signal("CONT", &children_of(parent));
        signal("CONT", &[parent]);
    }

    /// A stopped parent starts no other processes while its children are looked for.
    fn stop_parent(&self) -> u32 {
        let parent = self.running.as_ref().expect("it runs").id();
        signal("STOP", &[parent]);
        wait_until("the server stops", || state_of(parent).is_none_or(|(state, _)| matches!(state, 'T' | 'Z')));
        parent
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn launch(&self) -> Running {
        let mut postgres = command(&programs().join("postgres"), self.user.as_ref(), &self.folder);
        postgres.arg("-D").arg(self.data()).args(["-p", &self.address().port().to_string()]);
        // Nothing here outlives the machine, so nothing needs to reach the disk; and nothing is left in its shared memory.
        let fixed = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "shared_buffers=8MB",
            "dynamic_shared_memory_type=mmap",
            "log_min_messages=warning",
        ];
        for setting in fixed.iter().copied().chain(self.settings.iter().map(String::as_str)) {
            postgres.args(["-c", setting]);
        }
        Running::start(postgres, &self.log_file())
    }
}

impl Server for Postgres {
    fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Its processes are sessions of their own, so there is no group to be killed.
    fn kill(&mut self) {
        let children = children_of(self.stop_parent());
        let running = self.running.take().expect("it runs");
        signal("KILL", &children);
        running.kill();
        let gone = |&child: &u32| state_of(child).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'));
        wait_until("its processes have ended", || children.iter().all(gone));
    }

    async fn restart(&mut self) {
        assert!(self.running.is_none(), "it runs");
        let start = Instant::now();
        let mut running = self.launch();
        let config = config(&Backend::fixed(self.address()), "postgres", "observer");
        until(ms(30_000), async || {
            if let Some(status) = running.ended() {
                // What the last one left behind may keep it from starting for a moment.
                let enough = start.elapsed() > ms(10_000);
                assert!(!enough, "postgres ended ({status}):\n{}", tail(&self.log_file()));
                running = self.launch();
            }
            connect(&config).await?.simple_query("SELECT 1").await.map_err(AnyError::from)
        })
        .await;
        self.running = Some(running);
    }

    async fn connections(&self, pool: &str) -> usize {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND usename <> 'postgres'";
        let row = self.observer().await.query_one(count, &[&pool]).await.expect("it is there to be counted");
        usize::try_from(row.get::<_, i64>(0)).expect("a count")
    }
}

impl Drop for Postgres {
    /// The way that gives back its shared memory, if there is time for it; otherwise as `kill`.
    fn drop(&mut self) {
        if self.running.is_some() {
            // A frozen process handles no other signal.
            self.thaw();
        }
        if let Some(running) = &mut self.running {
            signal("QUIT", &[running.id()]);
            running.wait(Duration::from_secs(5));
            if running.ended().is_none() {
                self.kill();
            }
        }
    }
}

/// How a pool connects to it.
pub fn config(backend: &Backend, user: &str, pool: &str) -> Config {
    let mut config = Config::new();
    config.hostaddr(backend.address()).port(backend.port()).user(user).dbname("postgres").application_name(pool);
    config
}

/// As everybody does who has no manager.
pub async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    // Its end is seen by the client.
    tokio::spawn(connection);
    Ok(client)
}

/// Of the newest version that is installed.
pub fn programs() -> PathBuf {
    let root = Path::new("/usr/lib/postgresql");
    let version = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let installed = fs::read_dir(root).into_iter().flatten().flatten().filter_map(version);
    let newest = installed.filter(|version| root.join(version.to_string()).join("bin/initdb").exists()).max();
    root.join(newest.expect("PostgreSQL is installed: see live/install.sh").to_string()).join("bin")
}

/// What a process is doing, as the system writes it, and who its parent is; `None` when there is no such process.
fn state_of(process: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it, in brackets, may contain anything.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn children_of(parent: u32) -> Vec<u32> {
    let processes =
        fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|&process| state_of(process).is_some_and(|(_, its_parent)| its_parent == parent)).collect()
}

fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

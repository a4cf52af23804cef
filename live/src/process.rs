//! Servers as children: a port of their own, a folder of their own, and an end, whatever happens to the test.

use socket2::{Domain, Socket, Type};
use std::env;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A port of 127.0.0.1 that the system chose, and that stays ours also while no server listens on it.
///
/// A socket is bound to it and never listens: whoever connects meanwhile is refused, the server can be bound beside it
/// (both say `SO_REUSEADDR`), and the system gives the port to nobody else. Without it, a connection of somebody who needed
/// any port could sit there when a server comes back.
#[derive(Debug)]
pub struct Port {
    _keeper: Socket,
    address: SocketAddr,
}

impl Port {
    pub fn chosen() -> Port {
        let keeper = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        keeper.set_reuse_address(true).expect("SO_REUSEADDR");
        keeper.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
        let address = keeper.local_addr().expect("it is bound").as_socket().expect("an IP address");
        Port { _keeper: keeper, address }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// What the names of folders begin with; the process that made one follows.
const PREFIX: &str = "carom-live-";

/// A folder that goes with its server.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new(what: &str, owner: Option<&User>) -> Folder {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        if number == 0 {
            sweep();
        }
        let path = env::temp_dir().join(format!("{PREFIX}{}-{number}-{what}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Some(owner) = owner {
            chown(&path, Some(owner.uid), Some(owner.gid)).expect("root may give folders away");
        }
        Folder { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file, and says where it is.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }
}

/// Removes the folders of runs that were killed.
fn sweep() {
    for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Somebody else to run a server as, for those that refuse to be root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// The user of this name if we are root, otherwise nobody else: only root can be others.
    pub fn instead_of_root(name: &str) -> Option<User> {
        if id("-u", None) != 0 {
            return None;
        }
        Some(User { uid: id("-u", Some(name)), gid: id("-g", Some(name)) })
    }
}

fn id(option: &str, name: Option<&str>) -> u32 {
    let output = Command::new("id").arg(option).args(name).output().expect("`id` runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .unwrap_or_else(|_| panic!("`id {option} {name:?}`: {}", String::from_utf8_lossy(&output.stderr)))
}

/// A command as another user, or as ourselves. It ends with this process, however that ends.
pub fn command(program: &Path, user: Option<&User>, folder: &Folder) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some(User { uid, gid }) = user {
        command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--init-groups".into()]);
    }
    command.arg("--").arg(program).current_dir(folder.path()).stdin(Stdio::null());
    command
}

/// A process that ends with this value.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts it, with what it says going to a file.
    pub fn start(mut command: Command, log: &Path) -> Running {
        let log = File::options().create(true).append(true).open(log).expect("the log can be written");
        command.stdout(log.try_clone().expect("a file can be shared")).stderr(log);
        Running { child: spawn(command).expect("it can be started") }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// SIGKILL, and the system has taken back all that it had.
    pub fn kill(mut self) {
        self.end();
    }

    /// Lets it end by itself, if it does so soon.
    pub fn wait(&mut self, within: Duration) {
        let start = Instant::now();
        while self.ended().is_none() && start.elapsed() < within {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(&mut self) {
        // Both fail only if it has ended and been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends a signal, by its name, to processes that we started or that were started by those.
pub fn signal(name: &str, processes: &[u32]) {
    let processes = processes.iter().map(u32::to_string);
    let status =
        Command::new("sh").args(["-c", r#"kill -s "$0" "$@""#, name]).args(processes).stderr(Stdio::null()).status();
    status.expect("`sh` runs");
}

/// Starts a child from a thread that never ends: the system takes the end of the thread that started a child, not that of
/// the process, for the death of its parent.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static STARTER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, ordered) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in ordered {
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, answered) = mpsc::channel();
    starter.send((command, answer)).expect("the starter never ends");
    answered.recv().expect("the starter answers")
}

/// What a server said last, for whoever reads why it did not start.
pub fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

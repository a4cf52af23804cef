//! The sidecar and nginx as reverse proxies before the same node, under the same load: wrk, with connections that are kept.

use super::node::Node;
use std::env;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub const CONNECTIONS: usize = 64;
/// What `/proc` counts time in, on every Linux.
const TICKS_S: f64 = 100.0;

/// What one proxy did in one round.
#[derive(Clone, Copy)]
pub struct Round {
    pub rps: f64,
    pub p99_us: f64,
    pub per_cpu_s: f64,
    pub kib: f64,
    pub failed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    Carom,
    Nginx,
}

impl Proxy {
    pub fn name(self) -> &'static str {
        match self {
            Proxy::Carom => "carom up",
            Proxy::Nginx => "nginx",
        }
    }
}

/// What is missing for this comparison, if anything.
pub fn missing() -> Option<String> {
    if !program("carom").is_ok_and(|path| path.exists()) {
        return Some("the program `carom` beside carom-bench: `make bench` builds it".into());
    }
    let lacks = |name: &str| Command::new(name).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err();
    [nginx(), "wrk".into()].into_iter().find(|name| lacks(name))
}

/// A round with a proxy that is started for it, over a node that is there already.
pub fn run(proxy: Proxy, node: &Node, lead: Duration, period: Duration) -> io::Result<Round> {
    let running = Running::start(proxy, node.address)?;
    wrk(running.address, lead)?;
    let before = running.cpu_s()?;
    let said = wrk(running.address, period)?;
    let cpu_s = running.cpu_s()? - before;
    let requests = said.requests as f64;
    Ok(Round {
        rps: said.rps,
        p99_us: said.p99_us,
        per_cpu_s: requests / cpu_s,
        kib: running.kib()?,
        failed: said.failed,
    })
}

/// A proxy as processes of its own, which end with it.
struct Running {
    process: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl Running {
    fn start(proxy: Proxy, node: SocketAddr) -> io::Result<Running> {
        let folder = env::temp_dir().join(format!("carom-bench-{}-{proxy:?}", std::process::id()));
        fs::create_dir_all(&folder)?;
        // Free a moment ago; nobody else here asks for ports.
        let address = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 21), 0))?.local_addr()?;
        let mut command = match proxy {
            Proxy::Carom => carom(&folder, address, node)?,
            Proxy::Nginx => nginx_before(&folder, address, node)?,
        };
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let running = Running { process, address, folder };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err(io::Error::other(format!("{} does not listen", proxy.name())));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    /// It and its children.
    fn processes(&self) -> Vec<u32> {
        let own = self.process.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        [own].into_iter().chain(children).collect()
    }

    /// Seconds of processors spent by now.
    fn cpu_s(&self) -> io::Result<f64> {
        let mut ticks = 0.0;
        for process in self.processes() {
            let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
            // The name comes first, in brackets, and may hold anything.
            let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            ticks += fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>();
        }
        Ok(ticks / TICKS_S)
    }

    /// Memory, with what processes share counted once.
    fn kib(&self) -> io::Result<f64> {
        let mut kib = 0.0;
        for process in self.processes() {
            let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
            let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
            kib += line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or_default();
        }
        Ok(kib)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A worker of nginx would live on without its master.
        let processes = self.processes().iter().map(u32::to_string).collect::<Vec<_>>();
        let _ = Command::new("sh").args(["-c", r#"kill -s KILL "$@""#, "sh"]).args(processes).status();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn carom(folder: &Path, listen: SocketAddr, node: SocketAddr) -> io::Result<Command> {
    let config = folder.join("carom.toml");
    let text = format!(
        "[[service]]\nname = \"bench\"\nresolve = [\"{node}\"]\nlisten = \"{listen}\"\nprotocol = \"http\"\nspares = {CONNECTIONS}\nmaximum = {CONNECTIONS}\n"
    );
    fs::write(&config, text)?;
    let mut command = Command::new(program("carom")?);
    command.arg("up").arg("-c").arg(config);
    Ok(command)
}

/// As its documentation says a fast one is: connections to the node are kept, nothing is logged, a worker for each core.
fn nginx_before(folder: &Path, listen: SocketAddr, node: SocketAddr) -> io::Result<Command> {
    let workers = thread::available_parallelism()?;
    let text = format!(
        r#"daemon off;
pid nginx.pid;
error_log log crit;
worker_processes {workers};
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    keepalive_requests 100000000;
    upstream node {{
        server {node};
        keepalive {CONNECTIONS};
        keepalive_requests 100000000;
    }}
    server {{
        listen {listen} reuseport;
        location / {{
            proxy_pass http://node;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
}}
"#
    );
    let config = folder.join("nginx.conf");
    fs::write(&config, text)?;
    let mut command = Command::new(nginx());
    command.arg("-p").arg(folder).arg("-c").arg(config).args(["-e", "log"]);
    Ok(command)
}

struct Said {
    requests: u64,
    rps: f64,
    p99_us: f64,
    failed: u64,
}

fn wrk(address: SocketAddr, period: Duration) -> io::Result<Said> {
    let seconds = format!("{}s", period.as_secs().max(1));
    let mut wrk = Command::new("wrk");
    wrk.args(["--threads", "1", "--connections", &CONNECTIONS.to_string(), "--duration", &seconds, "--latency"]);
    let Output { stdout, stderr, status } = wrk.arg(format!("http://{address}/orders")).output()?;
    let text = String::from_utf8_lossy(&stdout);
    said(&text)
        .filter(|_| status.success())
        .ok_or_else(|| io::Error::other(format!("wrk, {status}: {text}{}", String::from_utf8_lossy(&stderr))))
}

fn said(text: &str) -> Option<Said> {
    let after = |start: &str| text.lines().find_map(|line| line.trim().strip_prefix(start)).map(str::trim);
    let requests = text.lines().find_map(|line| line.split_once(" requests in "))?.0.trim().parse().ok()?;
    let errors = after("Socket errors:").unwrap_or_default();
    let numbers =
        |text: &str| text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok()).sum::<u64>();
    let refused = after("Non-2xx or 3xx responses:").unwrap_or_default();
    Some(Said {
        requests,
        rps: after("Requests/sec:")?.parse().ok()?,
        p99_us: micros(after("99%")?)?,
        failed: numbers(errors) + numbers(refused),
    })
}

/// A time as wrk writes it: `850.00us`, `1.20ms`, `2.00s`.
fn micros(text: &str) -> Option<f64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1_000.0,
        "s" => 1_000_000.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * factor)
}

/// A program of this workspace, built beside this one.
fn program(name: &str) -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name(name))
}

/// Where it is, also for users whose path leaves out what administrators use.
fn nginx() -> String {
    let usual = "/usr/sbin/nginx";
    if Path::new(usual).exists() { usual.into() } else { "nginx".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says_is_understood() {
        let text = "Running 2s test @ http://127.0.0.1:1/\n  1 threads and 64 connections\n  Latency Distribution\n     50%    1.00ms\n     99%  850.50us\n  40000 requests in 2.00s, 5.00MB read\n  Socket errors: connect 0, read 2, write 0, timeout 1\n  Non-2xx or 3xx responses: 4\nRequests/sec:  20000.50\nTransfer/sec:      2.50MB\n";
        let said = said(text).unwrap();
        assert_eq!((said.requests, said.rps, said.p99_us, said.failed), (40_000, 20_000.5, 850.5, 7));
        assert_eq!(micros("1.20ms"), Some(1_200.0));
        assert_eq!(micros("soon"), None);
    }
}

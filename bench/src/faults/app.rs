//! The application behind the nginx nodes: one for all of them, so that the node is what fails. It responds after [`WORK`], and
//! slower or with 503 to the node that is in trouble.

use super::WORK;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    Unavailable,
    Slow,
}

type Troubled = Arc<Mutex<Option<(u16, Trouble)>>>;

/// Dropped, it accepts no more connections.
pub struct App {
    pub address: SocketAddr,
    troubled: Troubled,
    task: JoinHandle<io::Result<()>>,
}

impl App {
    pub async fn start() -> io::Result<App> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let troubled = Troubled::default();
        let accepting = Arc::clone(&troubled);
        let task = tokio::spawn(async move {
            loop {
                let (nginx, _) = listener.accept().await?;
                tokio::spawn(respond(nginx, Arc::clone(&accepting)));
            }
        });
        Ok(App { address, troubled, task })
    }

    /// Which node is in trouble from now on, by its port.
    pub fn set(&self, troubled: Option<(u16, Trouble)>) {
        *self.troubled.lock().unwrap_or_else(PoisonError::into_inner) = troubled;
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond(mut nginx: TcpStream, troubled: Troubled) -> io::Result<()> {
    nginx.set_nodelay(true)?;
    let mut received = Vec::with_capacity(4096);
    loop {
        if nginx.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
        if !received.ends_with(b"\r\n\r\n") {
            continue;
        }
        let head = String::from_utf8_lossy(&received).into_owned();
        received.clear();
        let node = head.lines().find_map(|line| line.strip_prefix("X-Node: ")?.parse::<u16>().ok());
        let trouble = *troubled.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = trouble.filter(|(port, _)| Some(*port) == node).map(|(_, trouble)| trouble);
        let response: &[u8] = match trouble {
            Some(Trouble::Unavailable) => b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
            Some(Trouble::Slow) => {
                sleep(WORK * 9).await;
                OK
            }
            None => OK,
        };
        sleep(WORK).await;
        nginx.write_all(response).await?;
    }
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";

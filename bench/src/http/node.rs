//! A node of the service, in a process of its own: as little as can answer a request, so that clients are what is measured.

use std::env;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 64\r\n\r\nsixty-three bytes, as small answers are, to the end of the line\n";
const END: &[u8] = b"\r\n\r\n";

/// A node as its parent sees it. Dropped, it is ended.
pub struct Node {
    process: Option<Child>,
    pub address: SocketAddr,
}

impl Node {
    /// Port 0 is one that the system chooses, and that it keeps from then on.
    pub fn start(address: SocketAddr) -> io::Result<Node> {
        let mut node = Node { process: None, address };
        node.revive()?;
        Ok(node)
    }

    /// SIGKILL: the system resets its connections and refuses new ones.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it where it was, and waits until it listens.
    pub fn revive(&mut self) -> io::Result<()> {
        let mut process = Command::new(env::current_exe()?)
            .args(["--serve", &format!("http-{}", self.address)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let says = process.stdout.take().ok_or_else(|| io::Error::other("the process has no pipe"))?;
        let mut line = String::new();
        BufReader::new(says).read_line(&mut line)?;
        self.process = Some(process);
        self.address = line.trim().parse().map_err(|_| io::Error::other("a node did not say where it listens"))?;
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The part of the process started with `--serve`: until its parent has gone.
pub fn serve(address: SocketAddr) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            tokio::spawn(answer(socket));
        }
    })
}

/// Answers each head that has no body, in turn.
async fn answer(mut socket: TcpStream) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(4096);
    loop {
        if socket.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        while let Some(end) = buffer.windows(END.len()).position(|window| window == END) {
            buffer.drain(..end + END.len());
            socket.write_all(ANSWER).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_long_as_it_says() {
        let text = std::str::from_utf8(ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
    }
}

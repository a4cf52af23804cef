//! An address at which nobody listens.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::{TcpListener, TcpSocket};

/// Connections to it are refused, and while this lives nobody else can come to listen there. A port that was just given back may be
/// another's the next moment.
#[derive(Debug)]
pub struct Nobody {
    address: SocketAddr,
    bound: TcpSocket,
}

impl Nobody {
    /// On a port of loopback that the system chooses.
    ///
    /// # Errors
    /// When there is none.
    pub fn new() -> io::Result<Nobody> {
        let bound = TcpSocket::new_v4()?;
        bound.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Nobody { address: bound.local_addr()?, bound })
    }

    /// Where nobody listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Somebody comes to listen there after all.
    ///
    /// # Errors
    /// When the system does not let them.
    pub fn listen(self) -> io::Result<TcpListener> {
        self.bound.listen(16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn nobody_is_there_and_nobody_can_come() {
        let nobody = Nobody::new().unwrap();
        let refused = TcpStream::connect(nobody.address()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(TcpListener::bind(nobody.address()).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let (address, listener) = (nobody.address(), nobody.listen().unwrap());
        let (connected, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        assert!(connected.is_ok() && accepted.is_ok());
    }
}

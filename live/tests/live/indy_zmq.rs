//! Our end of CURVE against libzmq's, both ways round.

use carom_indy::message::LONGEST_MESSAGE;
use carom_indy::zmtp::{KeyPair, Socket, SocketError};
use carom_live::python;
use std::net::SocketAddr;
use tokio::net::TcpListener;

fn hex(text: &str) -> [u8; 32] {
    let bytes = (0..32).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("two digits"));
    bytes.collect::<Vec<_>>().try_into().expect("32 of them")
}

async fn connect(address: SocketAddr, key: [u8; 32], name: &str) -> Result<Socket, SocketError> {
    Socket::connect(address, key, &KeyPair::random().unwrap(), name.to_owned().into(), LONGEST_MESSAGE).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_of_libzmq_is_asked() {
    let (mut router, line) = python::start("zmq_curve.py", &["router"]).await;
    let (port, key) = line.trim().split_once(' ').expect("where, and the key");
    let (address, key) = (SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap())), hex(key));

    let mut socket = connect(address, key, "first").await.unwrap();
    for size in [1, 255, 256, 100_000, LONGEST_MESSAGE - 8] {
        socket.push(&vec![b'x'; size]).unwrap();
        let answer = socket.next().await.unwrap();
        assert!(answer.starts_with(b"first 1 x") && answer.len() == size + 8, "{}", answer.len());
    }
    assert!(socket.push(&vec![b'x'; LONGEST_MESSAGE + 1]).is_err());
    // Of a message in two parts nothing is seen, and what comes behind it is whole.
    socket.push(b"many").unwrap();
    assert_eq!(socket.next().await.unwrap(), "first 1 many");

    let mut wrong = key;
    wrong[0] ^= 1;
    let refused = connect(address, wrong, "second").await.unwrap_err();
    println!("with another key: {refused}");
    assert!(matches!(refused, SocketError::ClosedInHandshake { due: "WELCOME" }));

    // It takes the identity over for who comes last, and closes on who had it before.
    let mut again = connect(address, key, "first").await.unwrap();
    again.push(b"here").unwrap();
    assert_eq!(again.next().await.unwrap(), "first 1 here");

    let mut many = Vec::new();
    for number in 0..50 {
        let mut socket = connect(address, key, &format!("n{number}")).await.unwrap();
        socket.push(b"hello").unwrap();
        assert_eq!(socket.next().await.unwrap(), format!("n{number} 1 hello"));
        many.push(socket);
    }
    // The first may have been taken for dead by now: nobody answers the router's heartbeats for it.
    let last = many.last_mut().unwrap();
    last.push(b"stop").unwrap();
    last.flush().await.unwrap();
    assert!(router.wait().await.unwrap().success());
    for socket in &mut many {
        assert!(socket.next().await.is_err(), "it is gone");
    }
    assert!(matches!(connect(address, key, "late").await, Err(SocketError::Connect { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dealer_of_libzmq_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    let keys = KeyPair::random().unwrap();
    let key: String = keys.public().iter().map(|byte| format!("{byte:02x}")).collect();
    let answer = async {
        let mut closed = false;
        'connections: loop {
            let mut socket = Socket::accept(listener.accept().await.unwrap().0, &keys, LONGEST_MESSAGE).await.unwrap();
            assert_eq!(socket.identity(), "python");
            if std::mem::take(&mut closed) {
                socket.push(b"again").unwrap();
            }
            loop {
                let asked = socket.next().await.unwrap();
                if asked == "close" {
                    closed = true;
                    continue 'connections;
                }
                socket.push(&[b"python ", &asked[..]].concat()).unwrap();
                if asked == "stop" {
                    socket.flush().await.unwrap();
                    return socket;
                }
            }
        }
    };
    let arguments = ["dealer", &address, &key];
    let (said, _socket) = tokio::join!(python::run("zmq_curve.py", &arguments), answer);
    print!("{said}");
}

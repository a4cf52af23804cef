//! Every send ends exactly once, whatever brokers, connections and users do in the middle of it.

use crate::support::{Teller, client, hang_up, in_time, receipt, usual, written};
use carom::Policy;
use carom_pulsar::wire::{BaseCommand, CloseProducer, Command, CommandType, Pong, ProducerSuccess};
use carom_pulsar::{Client, Error, Producer, Sending, ServerError};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use testkit::clock::advance;
use testkit::pulsar::{Answer, Cluster, On};
use testkit::wait::until;
use tokio::task::yield_now;

/// Polls it once; it is not done yet.
async fn begin(sending: &mut Sending) {
    let polled = std::future::poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut *sending).poll(context))).await;
    assert!(polled.is_pending());
}

async fn producer_of(teller: &Teller) -> Producer {
    Client::builder(&teller.url).build().unwrap().producer("orders").await.unwrap()
}

#[tokio::test]
async fn a_send_that_is_dropped_in_line_is_sent_and_one_that_waits_for_room_is_not() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let producer = client.producer("orders").max_pending(1).await.unwrap();
    cluster.answer(On::Anywhere, CommandType::Send, Answer::Ignored);
    let in_line = producer.send("0");
    cluster.until(|cluster| cluster.heard(0, CommandType::Send) == 1).await;
    let (mut given_up, mut waiting) = (producer.send("1"), producer.send("2"));
    begin(&mut given_up).await;
    begin(&mut waiting).await;
    drop((in_line, given_up));
    cluster.behave();
    cluster.disconnect(0);
    in_time(waiting).await.unwrap();
    assert_eq!(written(&cluster, "orders"), [0, 2]);
}

#[tokio::test]
async fn closing_sends_what_is_in_line_and_refuses_what_waits_for_room() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let producer = client.producer("orders").max_pending(2).await.unwrap();
    cluster.answer(On::Anywhere, CommandType::Send, Answer::Normal.after(Duration::from_millis(50)));
    let sending: Vec<_> = (0..2).map(|number| producer.send(format!("{number}"))).collect();
    let mut waiting = producer.send("2");
    begin(&mut waiting).await;
    let waiting = tokio::spawn(waiting);
    in_time(producer.close()).await.unwrap();
    for sending in sending {
        sending.await.unwrap();
    }
    assert!(matches!(in_time(waiting).await.unwrap(), Err(Error::Closed)));
    assert_eq!(written(&cluster, "orders"), [0, 1]);
    assert!(cluster.producers("orders").is_empty());
}

#[tokio::test]
async fn a_producer_that_is_closed_while_its_broker_is_away_sends_what_is_in_line_first() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    cluster.answer(On::Anywhere, CommandType::Send, Answer::Close.times(1, Answer::Normal));
    let sending: Vec<_> = (0..3).map(|number| producer.send(format!("{number}"))).collect();
    in_time(producer.close()).await.unwrap();
    for sending in sending {
        sending.await.unwrap();
    }
    assert_eq!(written(&cluster, "orders"), [0, 1, 2]);
}

#[tokio::test]
async fn a_send_that_nobody_awaits_does_not_keep_its_producer() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    let unawaited = producer.send("0");
    drop(producer);
    in_time(cluster.until(|cluster| cluster.producers("orders").is_empty())).await;
    unawaited.await.unwrap();
}

#[tokio::test]
async fn without_deduplication_a_lost_receipt_doubles_its_message_and_nothing_is_lost_or_overtaken() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    // Stored, and the receipt is lost with the connection.
    cluster.answer(
        On::Anywhere,
        CommandType::Send,
        Answer::Normal.times(3, Answer::DoneAndClose.times(1, Answer::Normal)),
    );
    let sending: Vec<_> = (0..10).map(|number| producer.send(format!("{number}"))).collect();
    for sending in sending {
        in_time(sending).await.unwrap();
    }
    let stored = written(&cluster, "orders");
    // The receipts of those before it may be lost with it.
    let again = stored.iter().skip(4).position(|number| *number == 4).map(|at| 4 + at).expect("the fifth is stored");
    assert_eq!(stored[..4], [0, 1, 2, 3]);
    assert!(
        stored[4..again].contains(&3) && stored[4..again].windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{stored:?}"
    );
    assert_eq!(stored[again..], [4, 5, 6, 7, 8, 9]);
}

#[tokio::test]
async fn receipts_of_nobody_and_second_receipts_do_no_harm() {
    let teller = Teller::start(|command, url| match command {
        Command::Send(send) => {
            let (id, sequence) = (send.producer_id, send.sequence_id);
            vec![receipt(id, sequence + 100), receipt(id + 100, sequence), receipt(id, sequence), receipt(id, sequence)]
        }
        command => usual(command, url),
    })
    .await;
    let producer = producer_of(&teller).await;
    for number in 0..10 {
        assert_eq!(in_time(producer.send("x")).await.unwrap().entry, number);
    }
}

#[tokio::test]
async fn a_receipt_that_comes_early_counts_and_what_it_passed_over_is_sent_again() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sent);
    let teller = Teller::start(move |command, url| match command {
        Command::Send(send) => {
            let mut seen = seen.lock().unwrap();
            seen.push(send.sequence_id);
            // The first receipt is forgotten.
            if seen.len() == 1 { Vec::new() } else { vec![receipt(send.producer_id, send.sequence_id)] }
        }
        command => usual(command, url),
    })
    .await;
    let producer = producer_of(&teller).await;
    let (first, second) = (producer.send("0"), producer.send("1"));
    assert_eq!(in_time(second).await.unwrap().entry, 1);
    assert_eq!(in_time(first).await.unwrap().entry, 0);
    assert_eq!(*sent.lock().unwrap(), [0, 1, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_its_receipt_is_not_sent_again_however_soon_the_connection_ends_after_it() {
    const LAST: u64 = 400;
    let told = Arc::new(Mutex::new((BTreeSet::new(), Vec::new())));
    let seen = Arc::clone(&told);
    let teller = Teller::start(move |command, url| match command {
        Command::Send(send) => {
            let (stored, doubled) = &mut *seen.lock().unwrap();
            if !stored.insert(send.sequence_id) {
                doubled.push(send.sequence_id);
            }
            let receipt = receipt(send.producer_id, send.sequence_id);
            // It hangs up after every tenth; whatever is behind is not stored.
            match send.sequence_id % 10 {
                9 => vec![receipt, hang_up()],
                _ => vec![receipt],
            }
        }
        command => usual(command, url),
    })
    .await;
    // A connection that ends young is nothing unusual here.
    let at_once = Policy::default().delay(Duration::from_millis(1)).max_delay(Duration::from_millis(5));
    let client = Client::builder(&teller.url).recovery(at_once).build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    let sending: Vec<_> = (0..LAST).map(|_| producer.send("x")).collect();
    for sending in sending {
        in_time(sending).await.unwrap();
    }
    let (_, doubled) = &*told.lock().unwrap();
    assert!(doubled.is_empty(), "{doubled:?}");
}

#[tokio::test]
async fn a_producer_after_the_last_number_there_is_goes_on() {
    let teller = Teller::start(|command, url| match command {
        Command::Producer(begun) => {
            let (request_id, producer_name, last_sequence_id) = (begun.request_id, "till".into(), Some(i64::MAX));
            vec![ProducerSuccess { request_id, producer_name, last_sequence_id, ..ProducerSuccess::default() }.into()]
        }
        command => usual(command, url),
    })
    .await;
    let producer = in_time(producer_of(&teller)).await;
    assert_eq!(in_time(producer.send("0")).await.unwrap().entry, 1 << 63);
}

#[tokio::test]
async fn a_producer_that_is_sent_away_before_it_has_begun_begins_again() {
    let begun = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&begun);
    let teller = Teller::start(move |command, url| match command {
        Command::Producer(begin) => {
            let mut begun = seen.lock().unwrap();
            *begun += 1;
            match *begun {
                1 => vec![CloseProducer { producer_id: begin.producer_id, ..CloseProducer::default() }.into()],
                _ => usual(command, url),
            }
        }
        command => usual(command, url),
    })
    .await;
    let producer = in_time(producer_of(&teller)).await;
    in_time(producer.send("0")).await.unwrap();
    assert_eq!(*begun.lock().unwrap(), 2);
}

#[tokio::test]
async fn a_producer_that_is_sent_away_as_it_begins_sends_what_is_in_line_after_it_has_begun_again() {
    // First the good news, then the bad, before it can have sent anything.
    let begun = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&begun);
    let teller = Teller::start(move |command, url| {
        let mut answers: Vec<BaseCommand> = usual(command, url);
        if let Command::Producer(begin) = command {
            let mut begun = seen.lock().unwrap();
            *begun += 1;
            if *begun < 3 {
                answers.push(CloseProducer { producer_id: begin.producer_id, ..CloseProducer::default() }.into());
            }
        }
        answers
    })
    .await;
    let producer = in_time(producer_of(&teller)).await;
    let sending: Vec<_> = (0..5).map(|_| producer.send("x")).collect();
    for (number, sending) in sending.into_iter().enumerate() {
        assert_eq!(in_time(sending).await.unwrap().entry, number as u64);
    }
    assert_eq!(*begun.lock().unwrap(), 3);
}

#[tokio::test]
async fn a_broker_that_does_not_confirm_a_close_keeps_no_message_beyond_its_time() {
    let (timeout, late) = (Duration::from_secs(3600), Duration::from_secs(3000));
    let cluster = Cluster::start(1).await.unwrap();
    cluster.keep_alive(2 * timeout);
    let client = client(&cluster).operation_timeout(timeout).keep_alive(2 * timeout).connection_max_idle(None);
    let client = client.build().unwrap();
    let producer = client.producer("orders").await.unwrap();
    cluster.answer(On::Anywhere, CommandType::CloseProducer, Answer::Ignored);
    cluster.answer(On::Anywhere, CommandType::Send, Answer::Error(ServerError::Persistence).after(late));
    let sending = tokio::spawn(producer.send("0"));
    in_time(cluster.until(|cluster| cluster.heard(0, CommandType::Send) == 1)).await;
    advance(late).await;
    in_time(cluster.until(|cluster| cluster.heard(0, CommandType::CloseProducer) == 1)).await;
    // What is left, and not the time of the close on top.
    advance(timeout - late).await;
    let error = in_time(sending).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::TimedOut { what: "the message", source: Some(_), .. }), "{error:?}");
}

#[tokio::test]
async fn a_close_that_the_broker_does_not_confirm_says_so() {
    let cluster = Cluster::start(1).await.unwrap();
    let client = client(&cluster).operation_timeout(Duration::from_secs(2)).build().unwrap();
    for (answer, confirmed) in
        [(Answer::Ignored, false), (Answer::Error(ServerError::Unknown), false), (Answer::Close, true)]
    {
        let producer = client.producer("orders").await.unwrap();
        in_time(producer.send("0")).await.unwrap();
        cluster.answer(On::Anywhere, CommandType::CloseProducer, answer);
        let closed = in_time(producer.close()).await;
        cluster.behave();
        match closed {
            Ok(()) => assert!(confirmed),
            Err(Error::TimedOut { what: "closing", .. } | Error::Refused { what: "closing", .. }) => {
                assert!(!confirmed)
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_producer_that_is_not_ready_waits_for_its_turn_beyond_the_time_of_an_operation() {
    let (timeout, keep_alive) = (Duration::from_secs(60), Duration::from_secs(3600));
    let asked = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&asked);
    // The first ping is followed by the word that the producer may begin.
    let waiting = Mutex::new(None);
    let teller = Teller::start(move |command, url| match command {
        Command::Producer(begin) => {
            *seen.lock().unwrap() += 1;
            *waiting.lock().unwrap() = Some(begin.request_id);
            let (request_id, producer_ready) = (begin.request_id, Some(false));
            vec![ProducerSuccess { request_id, producer_ready, ..ProducerSuccess::default() }.into()]
        }
        Command::Ping(_) => {
            let mut answers: Vec<BaseCommand> = vec![Pong {}.into()];
            if let Some(request_id) = waiting.lock().unwrap().take() {
                let (producer_name, producer_ready) = ("till".into(), Some(true));
                let ready = ProducerSuccess { request_id, producer_name, producer_ready, ..ProducerSuccess::default() };
                answers.push(ready.into());
            }
            answers
        }
        command => usual(command, url),
    })
    .await;
    let client = Client::builder(&teller.url).operation_timeout(timeout).keep_alive(keep_alive);
    let client = client.connection_max_idle(None).build().unwrap();
    let beginning = tokio::spawn(client.producer("orders").into_future());
    until("it has asked", || *asked.lock().unwrap() == 1).await;
    // Turns in which it hears that it is to wait, and after its time those in which it would give up.
    for time in [Duration::ZERO, 3 * timeout] {
        advance(time).await;
        for _ in 0..100 {
            yield_now().await;
        }
        assert!(!beginning.is_finished());
    }
    advance(keep_alive).await;
    let producer = in_time(beginning).await.unwrap().unwrap();
    in_time(producer.send("0")).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), 1, "it kept its place in line");
}

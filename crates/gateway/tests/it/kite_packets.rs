//! Kite's packets: what is written is read as the same, and bytes mean what Kite documents.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use carom_core::random::Random;
use carom_gateway::kite::packet::{
    self, Full, Index, Ltp, Message, Order, Packet, PacketError, Packets, Quote, Segment, Token,
};
use testkit::cases::{cases, usual};

fn number(random: &mut Random) -> u32 {
    match random.below(8) {
        0 => 0,
        1 => u32::MAX,
        2 => 1 << 31,
        _ => random.bits() as u32,
    }
}

fn price(random: &mut Random) -> i32 {
    number(random).cast_signed()
}

fn order(random: &mut Random) -> Order {
    Order { quantity: number(random), price: price(random), orders: number(random) as u16 }
}

fn quote(random: &mut Random) -> Quote {
    Quote {
        token: Token(number(random)),
        last_price: price(random),
        last_traded_quantity: number(random),
        average_traded_price: price(random),
        volume: number(random),
        total_buy_quantity: number(random),
        total_sell_quantity: number(random),
        open: price(random),
        high: price(random),
        low: price(random),
        close: price(random),
    }
}

fn any(random: &mut Random) -> Packet {
    match random.below(5) {
        0 => Packet::Ltp(Ltp { token: Token(number(random)), last_price: price(random) }),
        kind @ (1 | 2) => Packet::Index(Index {
            token: Token(number(random)),
            last_price: price(random),
            high: price(random),
            low: price(random),
            open: price(random),
            close: price(random),
            price_change: price(random),
            exchange_timestamp: (kind == 2).then(|| number(random)),
        }),
        3 => Packet::Quote(quote(random)),
        _ => Packet::Full(Full {
            quote: quote(random),
            last_trade_time: number(random),
            oi: number(random),
            oi_day_high: number(random),
            oi_day_low: number(random),
            exchange_timestamp: number(random),
            bids: std::array::from_fn(|_| order(random)),
            asks: std::array::from_fn(|_| order(random)),
        }),
    }
}

fn packets(message: &[u8]) -> Packets<'_> {
    match packet::read(message).expect("a message") {
        Message::Packets(packets) => packets,
        Message::Heartbeat => panic!("a heartbeat"),
    }
}

#[test]
fn what_is_written_is_read_as_the_same() {
    let mut kinds = [0; 185];
    for (_case, mut random) in cases(2_000) {
        let written: Vec<_> = (0..random.below(20)).map(|_| any(&mut random)).collect();
        let message = packet::message(&written).unwrap();
        let read: Vec<_> = packets(&message).collect::<Result<_, _>>().unwrap();
        assert_eq!(read, written);
        written.iter().for_each(|packet| kinds[usize::from(packet.length())] += 1);
    }
    let every = [8, 28, 32, 44, 184].iter().all(|&length| kinds[length] > 0);
    assert!(every || !usual(), "every kind was among them");
}

#[test]
fn bytes_that_were_read_are_written_as_the_same() {
    for (_case, mut random) in cases(2_000) {
        let length = [8, 28, 32, 44, 184][random.below(5)];
        let mut body: Vec<u8> = (0..length).map(|_| random.bits() as u8).collect();
        // What fills up an order means nothing.
        (74..length.max(74)).step_by(12).for_each(|at| body[at..at + 2].fill(0));
        let packet = Packet::read(&body).expect("each of these is a kind");
        assert_eq!(usize::from(packet.length()), length);
        let mut written = Vec::new();
        packet.write(&mut written);
        assert_eq!(written, body);
    }
}

/// A body whose numbers are their own offsets.
fn counting(length: usize) -> Vec<u8> {
    (0..length).step_by(4).flat_map(|at| (at as u32).to_be_bytes()).collect()
}

#[test]
fn each_field_is_where_kite_documents_it() {
    let Some(Packet::Ltp(ltp)) = Packet::read(&counting(8)) else { panic!("an ltp") };
    assert_eq!((ltp.token, ltp.last_price), (Token(0), 4));

    for (length, when) in [(28, None), (32, Some(28))] {
        let Some(Packet::Index(index)) = Packet::read(&counting(length)) else { panic!("an index") };
        assert_eq!((index.token, index.last_price, index.high, index.low), (Token(0), 4, 8, 12));
        assert_eq!((index.open, index.close, index.price_change, index.exchange_timestamp), (16, 20, 24, when));
    }

    let Some(Packet::Quote(quote)) = Packet::read(&counting(44)) else { panic!("a quote") };
    assert_eq!((quote.token, quote.last_price, quote.last_traded_quantity), (Token(0), 4, 8));
    assert_eq!((quote.average_traded_price, quote.volume), (12, 16));
    assert_eq!((quote.total_buy_quantity, quote.total_sell_quantity), (20, 24));
    assert_eq!((quote.open, quote.high, quote.low, quote.close), (28, 32, 36, 40));

    let mut body = counting(184);
    for (at, orders) in (72..184).step_by(12).zip(1_u16..) {
        body[at..at + 2].copy_from_slice(&orders.to_be_bytes());
    }
    let Some(Packet::Full(full)) = Packet::read(&body) else { panic!("a full one") };
    assert_eq!(full.quote, quote);
    assert_eq!((full.last_trade_time, full.oi, full.oi_day_high, full.oi_day_low), (44, 48, 52, 56));
    assert_eq!(full.exchange_timestamp, 60);
    assert_eq!(full.bids[0], Order { quantity: 64, price: 68, orders: 1 });
    assert_eq!(full.bids[4], Order { quantity: 112, price: 116, orders: 5 });
    assert_eq!(full.asks[0], Order { quantity: 124, price: 128, orders: 6 });
    assert_eq!(full.asks[4], Order { quantity: 172, price: 176, orders: 10 });
}

#[test]
fn prices_can_be_negative_and_quantities_cannot() {
    let mut body = vec![0xff; 44];
    body[..4].copy_from_slice(&[0, 0, 0, 7]);
    let Some(Packet::Quote(quote)) = Packet::read(&body) else { panic!("a quote") };
    assert_eq!((quote.last_price, quote.close, quote.average_traded_price), (-1, -1, -1));
    assert_eq!((quote.volume, quote.total_buy_quantity), (u32::MAX, u32::MAX));
}

#[test]
fn segments_say_where_the_point_is() {
    let decimals = [2, 2, 2, 7, 2, 2, 4, 2, 2, 2, 2];
    for (segment, expected) in (0..11).zip(decimals) {
        assert_eq!(Token(0x0001_0200 | segment).decimals(), expected, "{segment}");
    }
    assert_eq!([Token(779_521), Token(256_265)].map(Token::segment), [Segment::Nse, Segment::Indices]);
    assert_eq!(Token(42).segment(), Segment::Other(42));
}

#[test]
fn one_byte_is_a_heartbeat_and_nothing_is_nothing() {
    for byte in [0, 1, 255] {
        assert!(matches!(packet::read(&[byte]), Ok(Message::Heartbeat)));
    }
    assert_eq!(packet::read(&[]).unwrap_err(), PacketError::CutOff { missing: 0 });
    assert_eq!(packets(&[0, 0]).count(), 0);
    assert_eq!(packets(&[0, 0, 9, 9, 9]).count(), 0, "what follows the last is not looked at");
}

#[test]
fn a_packet_of_an_unknown_kind_is_skipped_and_the_others_are_read() {
    let mut random = Random::new(1);
    let (one, other) = (any(&mut random), any(&mut random));
    for length in (0..300_u16).filter(|length| ![8, 28, 32, 44, 184].contains(length)) {
        let mut message = vec![0, 3];
        for packet in [Some(&one), None, Some(&other)] {
            message.extend(packet.map_or(length, Packet::length).to_be_bytes());
            match packet {
                Some(packet) => packet.write(&mut message),
                None => message.resize(message.len() + usize::from(length), 7),
            }
        }
        let read: Vec<_> = packets(&message).collect();
        assert_eq!(read, [Ok(one.clone()), Err(PacketError::Unknown { length }), Ok(other.clone())]);
    }
}

#[test]
fn what_is_whole_in_a_message_that_is_cut_off_is_read() {
    let mut random = Random::new(2);
    let written: Vec<_> = (0..10).map(|_| any(&mut random)).collect();
    let message = packet::message(&written).unwrap();
    let mut ends = 2;
    for (whole, packet) in written.iter().enumerate() {
        let next = ends + 2 + usize::from(packet.length());
        for cut in ends..next {
            let mut read: Vec<_> = packets(&message[..cut]).collect();
            let missing = (written.len() - whole) as u16;
            assert_eq!(read.pop(), Some(Err(PacketError::CutOff { missing })), "at {cut}");
            assert_eq!(read.len(), whole);
            assert!(read.iter().zip(&written).all(|(read, written)| read.as_ref() == Ok(written)));
        }
        ends = next;
    }
}

#[test]
fn a_message_holds_as_many_packets_as_can_be_counted() {
    let ltp = Packet::Ltp(Ltp { token: Token(1), last_price: 1 });
    let most = vec![ltp; packet::MOST + 1];
    assert_eq!(packet::message(&most), None);
    assert_eq!(packets(&packet::message(&most[1..]).unwrap()).count(), packet::MOST);
}

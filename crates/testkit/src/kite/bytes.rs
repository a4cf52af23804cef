//! Packets as Kite documents them, offset by offset.

/// The packet for a mode (`ltp`, `quote` or `full`) whose last price is this; the other fields follow from it. Tokens that end in 9
/// are indices.
pub fn packet(token: u32, mode: &str, price: i32) -> Vec<u8> {
    let is_index = token & 0xff == 9;
    let length = match (mode, is_index) {
        ("ltp", _) => 8,
        ("quote", true) => 28,
        ("quote", false) => 44,
        (_, true) => 32,
        (_, false) => 184,
    };
    let mut body = vec![0; length];
    let mut put = |at: usize, value: i32| {
        if let Some(place) = body.get_mut(at..at + 4) {
            place.copy_from_slice(&value.to_be_bytes());
        }
    };
    put(0, token.cast_signed());
    put(4, price);
    if is_index {
        // high, low, open, close, change, and when
        for (at, value) in [(8, price + 20), (12, price - 20), (16, price + 10), (20, price - 10), (24, 10)] {
            put(at, value);
        }
        put(28, 1_700_000_001);
    } else {
        for (at, value) in [(8, 7), (12, price - 1), (16, 1_000), (20, 300), (24, 400)] {
            put(at, value);
        }
        // open, high, low, close
        for (at, value) in [(28, price + 10), (32, price + 20), (36, price - 20), (40, price - 10)] {
            put(at, value);
        }
        // last trade, open interest with its highest and lowest, and when
        for (at, value) in [(44, 1_700_000_000), (48, 50), (52, 60), (56, 40), (60, 1_700_000_001)] {
            put(at, value);
        }
        for level in 0..5_i32 {
            for (side, away) in [(64, -1 - level), (124, 1 + level)] {
                let at = side + 12 * level.cast_unsigned() as usize;
                put(at, 100 + level);
                put(at + 4, price + away);
                put(at + 8, (level + 1) << 16);
            }
        }
    }
    body
}

/// A message with these packets in it.
pub fn packets(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut message = (bodies.len() as u16).to_be_bytes().to_vec();
    for body in bodies {
        message.extend((body.len() as u16).to_be_bytes());
        message.extend(body);
    }
    message
}

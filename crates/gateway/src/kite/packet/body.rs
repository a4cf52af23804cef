//! The packets of each kind, known by their length.

use super::token::Token;

/// What is said of one instrument. Prices are whole numbers; [`Token::decimals`] says where the point is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// 8 bytes: mode `ltp`.
    Ltp(Ltp),
    /// 28 bytes in mode `quote`, 32 in mode `full`: of an index.
    Index(Index),
    /// 44 bytes: mode `quote`.
    Quote(Quote),
    /// 184 bytes: mode `full`.
    Full(Full),
}

/// The last price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ltp {
    /// Of what.
    pub token: Token,
    /// The last price.
    pub last_price: i32,
}

/// How an index stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are named as Kite names them")]
pub struct Index {
    pub token: Token,
    pub last_price: i32,
    pub high: i32,
    pub low: i32,
    pub open: i32,
    pub close: i32,
    pub price_change: i32,
    /// In seconds since 1970; in mode `full` alone.
    pub exchange_timestamp: Option<u32>,
}

/// How a day went so far. `close` is that of the day before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are named as Kite names them")]
pub struct Quote {
    pub token: Token,
    pub last_price: i32,
    pub last_traded_quantity: u32,
    pub average_traded_price: i32,
    pub volume: u32,
    pub total_buy_quantity: u32,
    pub total_sell_quantity: u32,
    pub open: i32,
    pub high: i32,
    pub low: i32,
    pub close: i32,
}

/// A quote, and the order book.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are named as Kite names them")]
pub struct Full {
    pub quote: Quote,
    /// In seconds since 1970; 0 is never.
    pub last_trade_time: u32,
    pub oi: u32,
    pub oi_day_high: u32,
    pub oi_day_low: u32,
    /// In seconds since 1970.
    pub exchange_timestamp: u32,
    /// The highest first.
    pub bids: [Order; 5],
    /// The lowest first.
    pub asks: [Order; 5],
}

/// One price in an order book; where there is none all is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are named as Kite names them")]
pub struct Order {
    pub quantity: u32,
    pub price: i32,
    pub orders: u16,
}

impl Packet {
    /// Reads one that has all of these bytes; none if there is no kind of this length.
    pub fn read(body: &[u8]) -> Option<Packet> {
        let mut from = Bytes(body);
        match body.len() {
            8 => Some(Packet::Ltp(Ltp { token: from.token()?, last_price: from.price()? })),
            28 => Some(Packet::Index(from.index()?)),
            32 => {
                let index = from.index()?;
                Some(Packet::Index(Index { exchange_timestamp: Some(from.number()?), ..index }))
            }
            44 => Some(Packet::Quote(from.quote()?)),
            184 => Some(Packet::Full(from.full()?)),
            _ => None,
        }
    }

    /// Appends it.
    pub fn write(&self, to: &mut Vec<u8>) {
        match self {
            Packet::Ltp(Ltp { token, last_price }) => numbers(to, [token.0, bits(*last_price)]),
            Packet::Index(index) => {
                let Index { token, last_price, high, low, open, close, price_change, exchange_timestamp } = *index;
                numbers(to, [token.0]);
                numbers(to, [last_price, high, low, open, close, price_change].map(bits));
                exchange_timestamp.into_iter().for_each(|at| numbers(to, [at]));
            }
            Packet::Quote(quote) => quote.write(to),
            Packet::Full(full) => full.write(to),
        }
    }

    /// How many bytes it has.
    pub fn length(&self) -> u16 {
        match self {
            Packet::Ltp(_) => 8,
            Packet::Index(Index { exchange_timestamp: None, .. }) => 28,
            Packet::Index(Index { exchange_timestamp: Some(_), .. }) => 32,
            Packet::Quote(_) => 44,
            Packet::Full(_) => 184,
        }
    }

    /// Of what.
    pub fn token(&self) -> Token {
        match self {
            Packet::Ltp(ltp) => ltp.token,
            Packet::Index(index) => index.token,
            Packet::Quote(quote) => quote.token,
            Packet::Full(full) => full.quote.token,
        }
    }
}

impl Quote {
    fn write(&self, to: &mut Vec<u8>) {
        let Quote { token, last_price, last_traded_quantity, average_traded_price, volume, .. } = *self;
        numbers(to, [token.0, bits(last_price), last_traded_quantity, bits(average_traded_price), volume]);
        numbers(to, [self.total_buy_quantity, self.total_sell_quantity]);
        numbers(to, [self.open, self.high, self.low, self.close].map(bits));
    }
}

impl Full {
    fn write(&self, to: &mut Vec<u8>) {
        self.quote.write(to);
        let Full { last_trade_time, oi, oi_day_high, oi_day_low, exchange_timestamp, .. } = *self;
        numbers(to, [last_trade_time, oi, oi_day_high, oi_day_low, exchange_timestamp]);
        for Order { quantity, price, orders } in self.bids.iter().chain(&self.asks) {
            // Two bytes that mean nothing fill each up.
            numbers(to, [*quantity, bits(*price), u32::from(*orders) << 16]);
        }
    }
}

/// What is left of a body. Each method is asked for no more than its length promises.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn price(&mut self) -> Option<i32> {
        self.number().map(u32::cast_signed)
    }

    fn token(&mut self) -> Option<Token> {
        self.number().map(Token)
    }

    fn index(&mut self) -> Option<Index> {
        Some(Index {
            token: self.token()?,
            last_price: self.price()?,
            high: self.price()?,
            low: self.price()?,
            open: self.price()?,
            close: self.price()?,
            price_change: self.price()?,
            exchange_timestamp: None,
        })
    }

    fn quote(&mut self) -> Option<Quote> {
        Some(Quote {
            token: self.token()?,
            last_price: self.price()?,
            last_traded_quantity: self.number()?,
            average_traded_price: self.price()?,
            volume: self.number()?,
            total_buy_quantity: self.number()?,
            total_sell_quantity: self.number()?,
            open: self.price()?,
            high: self.price()?,
            low: self.price()?,
            close: self.price()?,
        })
    }

    fn full(&mut self) -> Option<Full> {
        Some(Full {
            quote: self.quote()?,
            last_trade_time: self.number()?,
            oi: self.number()?,
            oi_day_high: self.number()?,
            oi_day_low: self.number()?,
            exchange_timestamp: self.number()?,
            bids: self.side()?,
            asks: self.side()?,
        })
    }

    fn side(&mut self) -> Option<[Order; 5]> {
        let mut side = [Order::default(); 5];
        for order in &mut side {
            *order = Order { quantity: self.number()?, price: self.price()?, orders: (self.number()? >> 16) as u16 };
        }
        Some(side)
    }
}

fn numbers<const N: usize>(to: &mut Vec<u8>, numbers: [u32; N]) {
    numbers.iter().for_each(|number| to.extend(number.to_be_bytes()));
}

fn bits(price: i32) -> u32 {
    price.cast_unsigned()
}

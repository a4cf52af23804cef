//! Tokens: the numbers that Kite knows instruments by, which also say how prices are to be read.

/// What Kite calls an `instrument_token`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// Where something is traded, as the last byte of its token says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Shares at NSE.
    Nse,
    /// Derivatives at NSE.
    Nfo,
    /// Currencies at NSE.
    Cds,
    /// Shares at BSE.
    Bse,
    /// Derivatives at BSE.
    Bfo,
    /// Currencies at BSE.
    Bcd,
    /// Commodities at MCX.
    Mcx,
    /// What was traded at MCX-SX.
    McxSx,
    /// Indices, which are not traded.
    Indices,
    /// One that was added later.
    Other(u8),
}

impl Token {
    /// Where it is traded.
    pub fn segment(self) -> Segment {
        match self.0 as u8 {
            1 => Segment::Nse,
            2 => Segment::Nfo,
            3 => Segment::Cds,
            4 => Segment::Bse,
            5 => Segment::Bfo,
            6 => Segment::Bcd,
            7 => Segment::Mcx,
            8 => Segment::McxSx,
            9 => Segment::Indices,
            other => Segment::Other(other),
        }
    }

    /// How many of a price's digits stand behind the point.
    pub fn decimals(self) -> u8 {
        match self.segment() {
            Segment::Cds => 7,
            Segment::Bcd => 4,
            Segment::Nse | Segment::Nfo | Segment::Bse | Segment::Bfo => 2,
            Segment::Mcx | Segment::McxSx | Segment::Indices | Segment::Other(_) => 2,
        }
    }
}

//! What is listed: names that people know first, then as many made-up ones as are wanted.

use carom::feed::Instrument;
use std::sync::Arc;

/// Well-known names, with a price in rupees that looks right.
const KNOWN: [(&str, &str, u32); 60] = [
    ("NSE", "SBIN", 812),
    ("NSE", "RELIANCE", 2_940),
    ("NSE", "TCS", 4_120),
    ("NSE", "INFY", 1_830),
    ("NSE", "HDFCBANK", 1_640),
    ("NSE", "ICICIBANK", 1_215),
    ("NSE", "ITC", 468),
    ("NSE", "LT", 3_560),
    ("NSE", "AXISBANK", 1_130),
    ("NSE", "KOTAKBANK", 1_790),
    ("NSE", "BHARTIARTL", 1_545),
    ("NSE", "HINDUNILVR", 2_480),
    ("NSE", "BAJFINANCE", 6_870),
    ("NSE", "MARUTI", 12_250),
    ("NSE", "ASIANPAINT", 2_910),
    ("NSE", "SUNPHARMA", 1_720),
    ("NSE", "TITAN", 3_420),
    ("NSE", "ULTRACEMCO", 11_300),
    ("NSE", "NESTLEIND", 2_490),
    ("NSE", "WIPRO", 545),
    ("NSE", "HCLTECH", 1_760),
    ("NSE", "TECHM", 1_590),
    ("NSE", "POWERGRID", 336),
    ("NSE", "NTPC", 398),
    ("NSE", "ONGC", 294),
    ("NSE", "COALINDIA", 486),
    ("NSE", "TATASTEEL", 152),
    ("NSE", "TATAMOTORS", 968),
    ("NSE", "JSWSTEEL", 946),
    ("NSE", "HINDALCO", 690),
    ("NSE", "GRASIM", 2_620),
    ("NSE", "CIPLA", 1_540),
    ("NSE", "DRREDDY", 6_610),
    ("NSE", "DIVISLAB", 5_230),
    ("NSE", "EICHERMOT", 4_790),
    ("NSE", "HEROMOTOCO", 5_480),
    ("NSE", "BAJAJ-AUTO", 10_870),
    ("NSE", "M&M", 2_790),
    ("NSE", "BRITANNIA", 5_720),
    ("NSE", "ADANIENT", 3_020),
    ("NSE", "ADANIPORTS", 1_450),
    ("NSE", "BPCL", 341),
    ("NSE", "INDUSINDBK", 1_420),
    ("NSE", "APOLLOHOSP", 6_930),
    ("NSE", "LTIM", 5_980),
    ("NSE", "YESBANK", 24),
    ("NSE_INDEX", "NIFTY", 24_850),
    ("NSE_INDEX", "BANKNIFTY", 51_300),
    ("NSE_INDEX", "FINNIFTY", 23_650),
    ("BSE_INDEX", "SENSEX", 81_400),
    ("BSE", "SBIN", 812),
    ("BSE", "RELIANCE", 2_940),
    ("BSE", "TCS", 4_120),
    ("BSE", "INFY", 1_830),
    ("NFO", "NIFTY26NOV26FUT", 24_930),
    ("NFO", "BANKNIFTY26NOV26FUT", 51_480),
    ("MCX", "CRUDEOIL18DEC26FUT", 6_210),
    ("MCX", "GOLD04DEC26FUT", 73_900),
    ("CDS", "USDINR26NOV26FUT", 84),
    ("CRYPTO", "BTC_INR", 5_640_000),
];

/// The first so many symbols, each with its price in paise. Neither depends on a seed: what is called how is known beforehand.
pub(super) fn listed(count: usize) -> Vec<(Instrument, i64)> {
    let known = KNOWN.iter().map(|&(exchange, symbol, rupees)| (Instrument::new(exchange, symbol), rupees));
    let nse: Arc<str> = "NSE".into();
    let made_up = (1u32..).map(|number| {
        // Prices all over the place, 40 to 4,999 rupees, by a step that has nothing in common with the range.
        let rupees = 40 + (u64::from(number) * 1_237 % 4_960) as u32;
        (Instrument::new(Arc::clone(&nse), format!("SIM{number:04}")), rupees)
    });
    known.chain(made_up).take(count).map(|(instrument, rupees)| (instrument, i64::from(rupees) * 100)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_as_many_as_wanted_and_no_two_alike() {
        for count in [1, 60, 61, 12_000] {
            let listed = listed(count);
            let names: BTreeSet<&Instrument> = listed.iter().map(|(instrument, _)| instrument).collect();
            assert_eq!((listed.len(), names.len()), (count, count));
            assert!(listed.iter().all(|&(_, paise)| paise >= 2_000));
        }
        assert_eq!(listed(61)[0].0, Instrument::new("NSE", "SBIN"));
        assert_eq!(listed(61)[60].0, Instrument::new("NSE", "SIM0001"));
    }
}

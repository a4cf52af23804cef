//! Kite's list of instruments: found by OpenAlgo's names and by Kite's, and a mistake in it is named with its line.

use carom::feed::Instrument;
use carom_gateway::kite::packet::Token;
use carom_gateway::kite::{Instruments, InstrumentsError};
use std::path::PathBuf;

const LIST: &str = include_str!("../data/kite_instruments.csv");

fn sample() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", "kite_instruments.csv"].iter().collect()
}

fn token(instruments: &Instruments, name: &str) -> Option<u32> {
    let (exchange, symbol) = name.split_once(':').unwrap();
    instruments.token(&Instrument::new(exchange, symbol)).map(|Token(token)| token)
}

#[test]
fn instruments_are_found_by_both_names_and_have_one() {
    let instruments = Instruments::from_file(sample()).unwrap();
    assert_eq!((instruments.len(), instruments.contradictions()), (16, 0));
    for (name, own, expected) in [
        ("NSE:SBIN", "NSE:SBIN", 779_521),
        ("BSE:SBIN", "BSE:SBIN", 128_028_676),
        ("NSE:M&M", "NSE:M&M", 519_937),
        ("NSE_INDEX:NIFTY", "NSE_INDEX:NIFTY 50", 256_265),
        ("NSE_INDEX:BANKNIFTY", "NSE_INDEX:NIFTY BANK", 260_105),
        ("NSE_INDEX:INDIAVIX", "NSE_INDEX:INDIA VIX", 264_969),
        ("BSE_INDEX:SENSEX", "BSE_INDEX:SENSEX", 265),
        ("NFO:NIFTY28MAR24FUT", "NFO:NIFTY24MARFUT", 15_199_490),
        ("NFO:NIFTY28MAR2420800CE", "NFO:NIFTY24MAR20800CE", 12_187_394),
        ("NFO:VEDL25APR24292.5CE", "NFO:VEDL24APR292.5CE", 25_334_274),
        ("CDS:USDINR26MAR24FUT", "CDS:USDINR24MARFUT", 412_675),
        ("BCD:USDINR26MAR24FUT", "BCD:USDINR24MARFUT", 272_838_150),
    ] {
        assert_eq!(token(&instruments, name), Some(expected), "{name}");
        assert_eq!(token(&instruments, own), Some(expected), "{own}");
        assert_eq!(instruments.of(Token(expected)).unwrap().to_string(), name);
    }
    for missing in ["NSE:NIFTY 50", "NSE:NIFTY", "NSE:sbin", "NFO:SBIN", "X:SBIN"] {
        assert_eq!(token(&instruments, missing), None, "{missing}");
    }
    assert_eq!(instruments.of(Token(1)), None);
}

#[test]
fn the_nearest_names_are_said() {
    let instruments = Instruments::read(LIST.as_bytes()).unwrap();
    for (wrong, said) in [
        ("NSE:SBNI", "did you mean NSE:SBIN?"),
        ("NSE:INFOY", "did you mean NSE:INFY?"),
        ("NFO:SBIN", "did you mean BSE:SBIN or NSE:SBIN?"),
        (
            "NFO:NIFTY28MAR2420800C",
            "did you mean NFO:NIFTY28MAR2420800CE or NFO:NIFTY28MAR2420800PE or NFO:NIFTY24MAR20800CE?",
        ),
        ("nse:sbin", "did you mean NSE:SBIN or BSE:SBIN?"),
        ("nfo:Sbin", "did you mean BSE:SBIN or NSE:SBIN?"),
        ("nse_index:nifty", "did you mean NSE_INDEX:NIFTY?"),
        ("NSE:RELIANCE", "no name is near to it"),
        ("LSE:VOD", "no name is near to it"),
    ] {
        let (exchange, symbol) = wrong.split_once(':').unwrap();
        assert_eq!(instruments.nearest(&Instrument::new(exchange, symbol)), said, "{wrong}");
    }
    let endless = Instrument::new("NSE", "S".repeat(1_000_000));
    assert_eq!(instruments.nearest(&endless), "no name is near to it");
}

#[test]
fn a_mistake_is_named_with_its_line() {
    let with = |line: &str| format!("{LIST}{line}\n");
    for (list, problem) in [
        (with("x,1,A,A,0,,0,0,0,EQ,NSE,NSE"), "line 18: `instrument_token` is no number"),
        (with("0,1,A,A,0,,0,0,0,EQ,NSE,NSE"), "line 18: `instrument_token` is no number"),
        (with("4294967296,1,A,A,0,,0,0,0,EQ,NSE,NSE"), "line 18: `instrument_token` is no number"),
        (with("1,1,,A,0,,0,0,0,EQ,NSE,NSE"), "line 18: `tradingsymbol` is no name"),
        (with("1,1,A,A,0,,0,0,0,EQ,NSE,"), "line 18: `exchange` is no name"),
        (with(&format!("1,1,{},A,0,,0,0,0,EQ,NSE,NSE", "A".repeat(129))), "line 18: `tradingsymbol` is no name"),
        (with("1,1,A"), "line 18: it has not as many columns as the first line"),
        (LIST.replace("tradingsymbol", "symbol"), "the first line names no column `tradingsymbol`"),
        (LIST.lines().next().unwrap().to_owned(), "there are no instruments in the list"),
        (String::new(), "there are no instruments in the list"),
        ("<!DOCTYPE html>\n".to_owned(), "that is HTML, and not a list in CSV"),
        ("{\"status\":\"error\"}".to_owned(), "that is JSON, and not a list in CSV"),
    ] {
        let error = Instruments::read(list.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), problem);
    }
    let bytes = [LIST.as_bytes(), b"1,1,\xff,A,0,,0,0,0,EQ,NSE,NSE\n"].concat();
    assert_eq!(Instruments::read(&*bytes).unwrap_err().to_string(), "line 18: that is not UTF-8");
    let missing = Instruments::from_file("/no/such/file.csv").unwrap_err();
    assert!(matches!(&missing, InstrumentsError::File { .. }) && missing.to_string().contains("/no/such/file.csv"));
}

#[test]
fn a_list_without_end_is_refused() {
    let header = LIST.lines().next().unwrap();
    let many = (1..=500_001).map(|token| format!("{token},,A{token},,,,,,,EQ,NSE,NSE\n")).collect::<String>();
    let error = Instruments::read(format!("{header}\n{many}").as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "there are more than 500000 instruments");
}

#[test]
fn the_first_of_a_name_or_token_counts() {
    let list = format!(
        "{LIST}779521,1,OTHER,O,0,,0,0,0,EQ,NSE,NSE\n\
         777,1,SBIN,S,0,,0,0,0,EQ,NSE,NSE\n\
         779521,3045,SBIN,STATE BANK OF INDIA,0,,0,0.05,1,EQ,NSE,NSE\n"
    );
    let instruments = Instruments::read(list.as_bytes()).unwrap();
    assert_eq!(instruments.contradictions(), 2, "one that is there twice is no contradiction");
    assert_eq!(token(&instruments, "NSE:SBIN"), Some(779_521));
    assert_eq!(token(&instruments, "NSE:OTHER"), None);
    assert_eq!((instruments.of(Token(777)), instruments.len()), (None, 16));
}

#[test]
fn a_name_of_kites_never_hides_one_of_openalgos() {
    let list = "instrument_token,tradingsymbol,name,expiry,strike,instrument_type,segment,exchange\n\
                258,X28MAR24FUT,Y,2024-04-25,0,FUT,NFO-FUT,NFO\n\
                514,X24MARFUT,X,2024-03-28,0,FUT,NFO-FUT,NFO\n";
    let instruments = Instruments::read(list.as_bytes()).unwrap();
    assert_eq!(token(&instruments, "NFO:X28MAR24FUT"), Some(514));
    assert_eq!(token(&instruments, "NFO:Y25APR24FUT"), Some(258));
    assert_eq!((instruments.len(), instruments.contradictions()), (2, 0));
}

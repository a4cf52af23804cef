//! How OpenAlgo's clients spell what Kite spells differently: derivatives and indices.

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

/// Indices of NSE whose name is not just Kite's without blanks.
const NSE: [(&str, &str); 6] = [
    ("NIFTY50", "NIFTY"),
    ("NIFTYBANK", "BANKNIFTY"),
    ("NIFTYFINSERVICE", "FINNIFTY"),
    ("NIFTYNEXT50", "NIFTYNXT50"),
    ("NIFTYMIDSELECT", "MIDCPNIFTY"),
    ("NIFTYMIDCAPSELECT", "MIDCPNIFTY"),
];

/// Indices of BSE that are not just called so, with `BSE` before it.
const BSE: [(&str, &str); 24] = [
    ("SENSEX", "SENSEX"),
    ("BANKEX", "BANKEX"),
    ("SENSEX50", "SENSEX50"),
    ("SNSX50", "SENSEX50"),
    ("SNXT50", "BSESENSEXNEXT50"),
    ("MID150", "BSE150MIDCAPINDEX"),
    ("LMI250", "BSE250LARGEMIDCAPINDEX"),
    ("MSL400", "BSE400MIDSMALLCAPINDEX"),
    ("BSECG", "BSECAPITALGOODS"),
    ("BSECD", "BSECONSUMERDURABLES"),
    ("BSEHC", "BSEHEALTHCARE"),
    ("BSEIT", "BSEINFORMATIONTECHNOLOGY"),
    ("CARBON", "BSECARBONEX"),
    ("DOL30", "BSEDOLLEX30"),
    ("DOL100", "BSEDOLLEX100"),
    ("DOL200", "BSEDOLLEX200"),
    ("BSEFMC", "BSEFASTMOVINGCONSUMERGOODS"),
    ("FINSER", "BSEFINANCIALSERVICES"),
    ("GREENX", "BSEGREENEX"),
    ("INFRA", "BSEINDIAINFRASTRUCTUREINDEX"),
    ("INDSTR", "BSEINDUSTRIALS"),
    ("LRGCAP", "BSELARGECAP"),
    ("OILGAS", "BSEOIL&GAS"),
    ("SMLCAP", "BSESMALLCAP"),
];

/// A future by what it is on, and its day: `NIFTY28MAR24FUT`.
pub(super) fn future(name: &str, expiry: &str) -> Option<String> {
    Some(format!("{}{}FUT", named(name)?, day(expiry)?))
}

/// An option by what it is on, its day, its price and its side: `NIFTY28MAR2420800CE`, `VEDL25APR24292.5CE`.
pub(super) fn option(name: &str, expiry: &str, strike: &str, side: &str) -> Option<String> {
    let is_number = strike.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && strike.parse::<f64>().is_ok();
    let strike = match strike.split_once('.') {
        Some((whole, part)) if part.bytes().all(|digit| digit == b'0') => whole,
        Some(_) => strike.trim_end_matches('0'),
        None => strike,
    };
    is_number.then_some(format!("{}{}{strike}{side}", named(name)?, day(expiry)?))
}

/// An index: in capitals, without blanks and dashes, and some under another name.
pub(super) fn index(exchange: &str, symbol: &str) -> String {
    let bare: String = symbol.chars().filter(|letter| !matches!(letter, ' ' | '-')).collect();
    let bare = bare.to_uppercase();
    let known = |table: &[(&str, &'static str)]| table.iter().find(|(own, _)| *own == bare).map(|(_, name)| *name);
    match exchange {
        "NSE_INDEX" => known(&NSE).map_or(bare.clone(), str::to_owned),
        "BSE_INDEX" => match known(&BSE) {
            Some(name) => name.to_owned(),
            None if bare.starts_with("BSE") => bare,
            None => format!("BSE{bare}"),
        },
        _ => bare,
    }
}

fn named(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

/// `2024-03-28` as `28MAR24`.
fn day(expiry: &str) -> Option<String> {
    let mut parts = expiry.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let is_date = parts.next().is_none()
        && [(year, 4), (month, 2), (day, 2)]
            .iter()
            .all(|(part, length)| part.len() == *length && part.bytes().all(|byte| byte.is_ascii_digit()));
    let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
    is_date.then(|| format!("{day}{month}{}", &year[2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_spelt_by_name_day_and_price() {
        assert_eq!(future("NIFTY", "2024-03-28").as_deref(), Some("NIFTY28MAR24FUT"));
        for (strike, spelt) in [("20800", "20800"), ("20800.0", "20800"), ("292.50", "292.5"), ("82.0025", "82.0025")] {
            assert_eq!(option("X", "2024-12-05", strike, "PE"), Some(format!("X05DEC24{spelt}PE")));
        }
        for expiry in
            ["", "2024-03", "2024-13-01", "2024-00-01", "24-03-28", "2024-03-28-1", "2024-3x-28", "é024-03-28"]
        {
            assert_eq!(future("NIFTY", expiry), None, "{expiry}");
        }
        for strike in ["", "1e5", "-3", "1.2.3", ".", "nan"] {
            assert_eq!(option("NIFTY", "2024-03-28", strike, "CE"), None, "{strike}");
        }
        assert_eq!(future("", "2024-03-28"), None);
    }

    #[test]
    fn indices_have_one_name_without_blanks() {
        for (exchange, own, name) in [
            ("NSE_INDEX", "NIFTY 50", "NIFTY"),
            ("NSE_INDEX", "NIFTY BANK", "BANKNIFTY"),
            ("NSE_INDEX", "INDIA VIX", "INDIAVIX"),
            ("BSE_INDEX", "SENSEX", "SENSEX"),
            ("BSE_INDEX", "METAL", "BSEMETAL"),
            ("BSE_INDEX", "BSE500", "BSE500"),
            ("BSE_INDEX", "OILGAS", "BSEOIL&GAS"),
            ("MCX_INDEX", "MCXBULLDEX", "MCXBULLDEX"),
        ] {
            assert_eq!(index(exchange, own), name);
        }
    }
}

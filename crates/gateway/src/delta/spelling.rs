//! How OpenAlgo's clients spell what Delta Exchange spells differently.

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

/// What futures are quoted in.
const QUOTED_IN: [&str; 4] = ["USDT", "USD", "BTC", "ETH"];

/// OpenAlgo's name for a contract, if that is another: `BTCUSDFUT` for the perpetual `BTCUSD`, `BTC28FEB25FUT` for the future
/// `BTCUSD28Feb2025`, `BTC28FEB2580000CE` for the option `C-BTC-80000-280225`, and `BTCINR` for `BTC_INR` itself.
pub(super) fn openalgo(contract_type: &str, symbol: &str) -> Option<String> {
    match contract_type {
        "perpetual_futures" => Some(format!("{symbol}FUT")),
        "futures" => future(symbol),
        "call_options" | "turbo_call_options" | "synth_call_options" => option(symbol, "CE"),
        "put_options" | "turbo_put_options" | "synth_put_options" => option(symbol, "PE"),
        "spot" => symbol.contains('_').then(|| symbol.replace('_', "")),
        _ => None,
    }
}

fn future(symbol: &str) -> Option<String> {
    let upper = symbol.to_ascii_uppercase();
    let (pair, date) = upper.split_at_checked(upper.len().checked_sub("28FEB2025".len())?)?;
    let (day, month, year) = (date.get(..2)?, date.get(2..5)?, date.get(5..)?);
    if !is_digits(day) || !MONTHS.contains(&month) || !is_digits(year) {
        return None;
    }
    let asset = QUOTED_IN.iter().find_map(|quoted| pair.strip_suffix(quoted)).filter(|asset| !asset.is_empty());
    Some(format!("{}{day}{month}{}FUT", asset.unwrap_or(pair), &year[2..]))
}

fn option(symbol: &str, side: &str) -> Option<String> {
    let mut parts = symbol.split('-');
    let (_, asset, strike, date) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || date.len() != 6 || !is_digits(date) {
        return None;
    }
    let month = MONTHS.get(date[2..4].parse::<usize>().ok()?.checked_sub(1)?)?;
    Some(format!("{}{}{month}{}{strike}{side}", asset.to_ascii_uppercase(), &date[..2], &date[4..]))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_are_spelt_as_openalgo_does() {
        for (contract_type, own, expected) in [
            ("perpetual_futures", "BTCUSD", Some("BTCUSDFUT")),
            ("futures", "BTCUSD28Feb2025", Some("BTC28FEB25FUT")),
            ("futures", "SOLUSDT01Jan2027", Some("SOL01JAN27FUT")),
            ("call_options", "C-BTC-80000-280225", Some("BTC28FEB2580000CE")),
            ("put_options", "P-XRP-0.55-011226", Some("XRP01DEC260.55PE")),
            ("spot", "BTC_INR", Some("BTCINR")),
            ("spot", "BTCINR", None),
            ("move_options", "MV-BTC-80000-280225", None),
            ("", "BTCUSD", None),
        ] {
            assert_eq!(openalgo(contract_type, own).as_deref(), expected, "{own}");
        }
    }

    #[test]
    fn what_is_not_as_it_should_be_has_no_other_name() {
        for own in ["", "BTCUSD", "28Feb202", "é8Feb2025", "BTCUSD2éFe2025", "BTCUSD28Fxb2025", "BTCUSD28Feb20x5"] {
            assert_eq!(openalgo("futures", own), None, "{own}");
        }
        for own in
            ["", "C-BTC", "C-BTC-1-280225-1", "C-BTC-1-28022", "C-BTC-1-281325", "C-BTC-1-280025", "C-BTC-1-2é0x5"]
        {
            assert_eq!(openalgo("call_options", own), None, "{own}");
        }
    }
}

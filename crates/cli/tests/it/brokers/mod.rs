//! What brokers list, and configs of feeds at them.

/// Kite's list, a very short one.
#[allow(dead_code)]
pub(crate) const KITE: &str = "\
instrument_token,exchange_token,tradingsymbol,name,last_price,expiry,strike,tick_size,lot_size,instrument_type,segment,exchange
779521,3045,SBIN,STATE BANK OF INDIA,0,,0,0.05,1,EQ,NSE,NSE
738561,2885,RELIANCE,RELIANCE INDUSTRIES,0,,0,0.05,1,EQ,NSE,NSE
256265,1001,NIFTY 50,NIFTY 50,0,,0,0,0,EQ,INDICES,NSE
";

/// Delta Exchange's.
#[allow(dead_code)]
pub(crate) const DELTA: &str = r#"{"success":true,"result":[
    {"symbol":"BTCUSD","contract_type":"perpetual_futures","tick_size":"0.5","state":"live"},
    {"symbol":"ETHUSD","contract_type":"perpetual_futures","tick_size":"0.05","state":"live"}]}"#;

/// A feed of Kite with these further keys, in lines of their own from the 4th on.
#[allow(dead_code)]
pub(crate) fn kite(more: &str) -> String {
    format!("[[feed]]\nbroker = \"zerodha\"\nuser = \"asha\"\n{more}\n")
}

/// A feed of Delta Exchange likewise.
#[allow(dead_code)]
pub(crate) fn delta(more: &str) -> String {
    format!("[[feed]]\nbroker = \"deltaexchange\"\nuser = \"asha\"\n{more}\n")
}

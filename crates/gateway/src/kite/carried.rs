//! What one connection carries: which instruments stand behind a token, and in which mode Kite is to stream it.
//!
//! Kite streams a token once, in one mode. Two names may lead to one token, and each be wanted in another mode: the highest is what
//! is asked for, and both get what comes.

use super::instruments::Instruments;
use super::packet::Token;
use super::request;
use carom::feed::{Change, Instrument, Mode, Refused};
use std::collections::{BTreeMap, HashMap};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Never empty behind a token.
    by_token: HashMap<Token, Vec<(Instrument, Mode)>>,
    /// The token may be another one in a list that came later.
    tokens: HashMap<Instrument, Token>,
}

/// What Kite is to be told, in this order: what is dropped makes room.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    drop: Vec<Token>,
    add: Vec<Token>,
    modes: BTreeMap<Mode, Vec<Token>>,
}

impl Carried {
    /// The instruments with this token.
    pub(super) fn of(&self, token: Token) -> impl Iterator<Item = &Instrument> {
        self.by_token.get(&token).into_iter().flatten().map(|(instrument, _)| instrument)
    }

    /// Carries out these changes: what Kite is to be told, and what it does not know.
    pub(super) fn change(&mut self, changes: &[Change], instruments: &Instruments) -> (Told, Vec<Refused>) {
        let mut refused = Vec::new();
        let mut before = BTreeMap::new();
        for (position, Change { instrument, to, .. }) in changes.iter().enumerate() {
            let known = self.tokens.get(instrument).copied();
            let token = match (known, to) {
                (Some(token), _) => token,
                // Kite never knew it.
                (None, None) => continue,
                (None, Some(_)) => match instruments.token(instrument) {
                    Some(token) => token,
                    None => {
                        let reason = format!("Kite lists no {instrument}: {}", instruments.nearest(instrument));
                        refused.push(Refused { position, reason: reason.into() });
                        continue;
                    }
                },
            };
            before.entry(token).or_insert_with(|| self.mode(token));
            self.set(token, instrument, to.map(|level| level.mode));
        }
        (self.told(before), refused)
    }

    /// What has become of tokens that were in these modes.
    fn told(&self, before: BTreeMap<Token, Option<Mode>>) -> Told {
        let mut told = Told::default();
        for (token, before) in before {
            let after = self.mode(token);
            match (before, after) {
                (Some(_), None) => told.drop.push(token),
                (None, Some(_)) => told.add.push(token),
                (Some(_), Some(_)) | (None, None) => {}
            }
            if let Some(mode) = after.filter(|_| before != after) {
                told.modes.entry(mode).or_default().push(token);
            }
        }
        told
    }

    fn mode(&self, token: Token) -> Option<Mode> {
        self.by_token.get(&token)?.iter().map(|(_, mode)| *mode).max()
    }

    fn set(&mut self, token: Token, instrument: &Instrument, mode: Option<Mode>) {
        let names = self.by_token.entry(token).or_default();
        names.retain(|(name, _)| name != instrument);
        match mode {
            Some(mode) => {
                names.push((instrument.clone(), mode));
                self.tokens.insert(instrument.clone(), token);
            }
            None => {
                self.tokens.remove(instrument);
                if names.is_empty() {
                    self.by_token.remove(&token);
                }
            }
        }
    }
}

impl Told {
    /// As texts.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> {
        let drop = (!self.drop.is_empty()).then(|| request::unsubscribe(&self.drop));
        let add = (!self.add.is_empty()).then(|| request::subscribe(&self.add));
        let modes = self.modes.iter().map(|(mode, tokens)| request::set_mode(*mode, tokens));
        drop.into_iter().chain(add).chain(modes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carom::feed::Level;

    fn instruments() -> Instruments {
        let list = "instrument_token,tradingsymbol,name,expiry,strike,instrument_type,segment,exchange\n\
                    779521,SBIN,STATE BANK OF INDIA,,0,EQ,NSE,NSE\n\
                    408065,INFY,INFOSYS,,0,EQ,NSE,NSE\n\
                    256265,NIFTY 50,NIFTY 50,,0,EQ,INDICES,NSE\n";
        Instruments::read(list.as_bytes()).unwrap()
    }

    fn change(name: (&str, &str), to: Option<Mode>) -> Change {
        let to = to.map(|mode| Level { mode, depth: 5 });
        Change { instrument: Instrument::new(name.0, name.1), from: None, to }
    }

    fn texts(carried: &mut Carried, changes: &[Change]) -> Vec<String> {
        let (told, refused) = carried.change(changes, &instruments());
        assert_eq!(refused, []);
        told.texts().collect()
    }

    const SBIN: (&str, &str) = ("NSE", "SBIN");
    const INFY: (&str, &str) = ("NSE", "INFY");

    #[test]
    fn modes_go_up_and_down_and_what_is_dropped_goes_first() {
        let mut carried = Carried::default();
        let added = texts(&mut carried, &[change(SBIN, Some(Mode::Ltp)), change(INFY, Some(Mode::Depth))]);
        assert_eq!(
            added,
            [
                r#"{"a":"subscribe","v":[408065,779521]}"#,
                r#"{"a":"mode","v":["ltp",[779521]]}"#,
                r#"{"a":"mode","v":["full",[408065]]}"#
            ]
        );
        assert_eq!(texts(&mut carried, &[change(SBIN, Some(Mode::Quote))]), [r#"{"a":"mode","v":["quote",[779521]]}"#]);
        assert_eq!(texts(&mut carried, &[change(SBIN, Some(Mode::Quote))]), [""; 0]);
        let turned = texts(&mut carried, &[change(SBIN, Some(Mode::Ltp)), change(INFY, None)]);
        assert_eq!(turned, [r#"{"a":"unsubscribe","v":[408065]}"#, r#"{"a":"mode","v":["ltp",[779521]]}"#]);
        assert_eq!(carried.of(Token(408_065)).count(), 0);
        assert_eq!(texts(&mut carried, &[change(INFY, None)]), [""; 0], "it is not carried");
    }

    #[test]
    fn two_names_of_one_token_share_its_stream() {
        let (ours, own) = (("NSE_INDEX", "NIFTY"), ("NSE_INDEX", "NIFTY 50"));
        let mut carried = Carried::default();
        let both = [change(ours, Some(Mode::Ltp)), change(own, Some(Mode::Quote))];
        let added = [r#"{"a":"subscribe","v":[256265]}"#, r#"{"a":"mode","v":["quote",[256265]]}"#];
        assert_eq!(texts(&mut carried, &both), added);
        assert_eq!(carried.of(Token(256_265)).count(), 2);
        assert_eq!(texts(&mut carried, &[change(own, None)]), [r#"{"a":"mode","v":["ltp",[256265]]}"#]);
        assert_eq!(texts(&mut carried, &[change(ours, None)]), [r#"{"a":"unsubscribe","v":[256265]}"#]);
    }

    #[test]
    fn what_is_not_listed_is_refused_alone() {
        let mut carried = Carried::default();
        let changes = [change(("NSE", "SBNI"), Some(Mode::Ltp)), change(SBIN, Some(Mode::Ltp))];
        let (told, refused) = carried.change(&changes, &instruments());
        assert_eq!(told.add, [Token(779_521)]);
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].position, 0);
        assert_eq!(&*refused[0].reason, "Kite lists no NSE:SBNI: did you mean NSE:SBIN?");
    }

    #[test]
    fn what_is_carried_keeps_its_token_when_the_list_has_another() {
        let mut carried = Carried::default();
        texts(&mut carried, &[change(SBIN, Some(Mode::Ltp))]);
        let list = "instrument_token,tradingsymbol,name,expiry,strike,instrument_type,segment,exchange\n\
                    1,SBIN,STATE BANK OF INDIA,,0,EQ,NSE,NSE\n";
        let other = Instruments::read(list.as_bytes()).unwrap();
        let (told, _) = carried.change(&[change(SBIN, None)], &other);
        assert_eq!(told.drop, [Token(779_521)]);
    }
}

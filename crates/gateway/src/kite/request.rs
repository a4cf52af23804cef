//! What Kite is told: texts that name tokens. It answers none of them.

use super::packet::Token;
use crate::upstream::digits::digits;
use carom::feed::Mode;

/// What Kite calls a mode.
fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Ltp => "ltp",
        Mode::Quote => "quote",
        Mode::Depth => "full",
    }
}

/// Stream these, at first with quotes.
pub(super) fn subscribe(tokens: &[Token]) -> String {
    let mut text = String::from(r#"{"a":"subscribe","v":"#);
    list(&mut text, tokens);
    text.push('}');
    text
}

/// Do not stream these any more.
pub(super) fn unsubscribe(tokens: &[Token]) -> String {
    let mut text = String::from(r#"{"a":"unsubscribe","v":"#);
    list(&mut text, tokens);
    text.push('}');
    text
}

/// Stream so much of these.
pub(super) fn set_mode(mode: Mode, tokens: &[Token]) -> String {
    let mut text = format!(r#"{{"a":"mode","v":["{}","#, name(mode));
    list(&mut text, tokens);
    text.push_str("]}");
    text
}

fn list(text: &mut String, tokens: &[Token]) {
    for (at, Token(token)) in tokens.iter().enumerate() {
        text.push(if at == 0 { '[' } else { ',' });
        digits(text, (*token).into());
    }
    text.push_str(if tokens.is_empty() { "[]" } else { "]" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_kite_documents_them() {
        let tokens = [Token(408_065), Token(884_737)];
        assert_eq!(subscribe(&tokens), r#"{"a":"subscribe","v":[408065,884737]}"#);
        assert_eq!(unsubscribe(&tokens[..1]), r#"{"a":"unsubscribe","v":[408065]}"#);
        assert_eq!(set_mode(Mode::Depth, &tokens), r#"{"a":"mode","v":["full",[408065,884737]]}"#);
        assert_eq!(set_mode(Mode::Ltp, &[]), r#"{"a":"mode","v":["ltp",[]]}"#);
    }
}

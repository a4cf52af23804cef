//! Whether what comes in parts is a text: what of it a terminal can be shown, and where it ceases to be one.

/// A text so far.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// The beginning of a character of which the rest has not come.
    begun: Vec<u8>,
}

/// What a part is found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Text, which can be shown.
    Text(Vec<u8>),
    /// Something else, from the place where this text has ended.
    Binary(Vec<u8>),
}

impl Text {
    /// Looks at the next part.
    pub(super) fn take(&mut self, part: &[u8]) -> Found {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(part);
        let (valid, cut_short) = match std::str::from_utf8(&bytes) {
            Ok(text) => (text, true),
            // Without a length, it is not over.
            Err(error) => {
                let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
                (valid, error.error_len().is_none())
            }
        };
        let shown = valid.find(is_obeyed).unwrap_or(valid.len());
        let is_text = cut_short && shown == valid.len();
        if is_text {
            self.begun = bytes.split_off(shown);
            return Found::Text(bytes);
        }
        bytes.truncate(shown);
        Found::Binary(bytes)
    }

    /// Whether it ended within a character.
    pub(super) fn is_cut_short(&self) -> bool {
        !self.begun.is_empty()
    }
}

/// What a terminal does not show but do: it could be told to do anything.
fn is_obeyed(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Found {
        Found::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn a_text_is_one_however_it_is_cut() {
        let whole = "né\t股票 \u{1f600}\r\n";
        for at in 0..=whole.len() {
            let (one, other) = whole.as_bytes().split_at(at);
            let (mut looking, mut shown) = (Text::default(), Vec::new());
            for part in [one, other] {
                match looking.take(part) {
                    Found::Text(part) => shown.extend(part),
                    Found::Binary(_) => panic!("cut at {at}"),
                }
            }
            assert_eq!((shown.as_slice(), looking.is_cut_short()), (whole.as_bytes(), false), "cut at {at}");
        }
    }

    #[test]
    fn what_is_none_is_found_out_where_it_begins() {
        for part in [&b"ok\0"[..], b"ok\xff", b"ok\x1b[2J", b"ok\x7f", b"ok\xc2\x9b2J", b"ok\xe8\x82("] {
            assert_eq!(Text::default().take(part), Found::Binary(b"ok".to_vec()), "{part:?}");
        }
        let mut looking = Text::default();
        assert_eq!((looking.take("a股".as_bytes().split_at(3).0), looking.is_cut_short()), (text("a"), true));
        assert_eq!(looking.take(b"b"), Found::Binary(Vec::new()));
    }
}

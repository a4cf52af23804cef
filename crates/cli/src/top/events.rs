//! Server-sent events, out of bytes that come in any pieces.

use std::mem;
use std::time::Duration;

/// An event is no longer, and no line of one.
const LONGEST: usize = 32 << 20;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// `message` when the server gives it no name.
    pub(super) name: String,
    pub(super) data: String,
}

/// Something that goes on for longer than any event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {} MB", LONGEST >> 20)]
pub(super) struct TooLong;

/// Reads events. What an end cuts short is none.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Of the line that has not ended.
    line: Vec<u8>,
    /// Whether the last line has ended with a CR, which an LF may yet belong to.
    after_cr: bool,
    /// Whether a line has ended: only the very first may begin with a mark.
    begun: bool,
    name: String,
    /// Each line of it with an LF.
    data: String,
    retry: Option<Duration>,
}

impl Reader {
    /// How long to wait before coming back, if the server has said so.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes what came, and adds the events that it completes.
    pub(super) fn take(&mut self, mut part: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        if mem::take(&mut self.after_cr) {
            // An empty part says nothing of what follows.
            match part.split_first() {
                None => self.after_cr = true,
                Some((b'\n', rest)) => part = rest,
                Some(_) => {}
            }
        }
        while let Some(end) = part.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            self.extend(&part[..end])?;
            let rest = &part[end + 1..];
            part = match (part[end], rest.first()) {
                (b'\r', Some(b'\n')) => &rest[1..],
                (b'\r', None) => {
                    self.after_cr = true;
                    rest
                }
                _ => rest,
            };
            let line = mem::take(&mut self.line);
            events.extend(self.line(&line));
            if self.data.len() > LONGEST {
                return Err(TooLong);
            }
        }
        self.extend(part)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > LONGEST {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// A whole line; an empty one ends an event.
    fn line(&mut self, line: &[u8]) -> Option<Event> {
        let marked = if mem::replace(&mut self.begun, true) { None } else { line.strip_prefix(b"\xef\xbb\xbf") };
        let line = String::from_utf8_lossy(marked.unwrap_or(line));
        if line.is_empty() {
            return self.complete();
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                self.data += value;
                self.data.push('\n');
            }
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().ok().map(Duration::from_millis).or(self.retry);
            }
            // A comment has no name; what is not known is ignored, as an `id`, which nobody here needs.
            _ => {}
        }
        None
    }

    fn complete(&mut self) -> Option<Event> {
        let (mut name, mut data) = (mem::take(&mut self.name), mem::take(&mut self.data));
        if name.is_empty() {
            name.push_str("message");
        }
        // Without a line of data, whatever name it has, it is no event.
        data.pop()?;
        Some(Event { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.to_owned(), data: data.to_owned() }
    }

    fn read(parts: &[&[u8]]) -> (Vec<Event>, Reader) {
        let (mut reader, mut events) = (Reader::default(), Vec::new());
        for part in parts {
            reader.take(part, &mut events).unwrap();
        }
        (events, reader)
    }

    #[test]
    fn fields_are_what_the_standard_says() {
        let text = "\u{feff}: hello\nretry: 1500\nevent: snapshot\ndata: {\"a\":\ndata:1}\nid: 7\nwhat\n\n\
                    data\n\nevent: nothing\n\nretry: soon\ndata:  x\nretry:99999999999999999999\n\ndata: cut short\n";
        let (events, reader) = read(&[text.as_bytes()]);
        assert_eq!(events, [event("snapshot", "{\"a\":\n1}"), event("message", ""), event("message", " x")]);
        assert_eq!(reader.retry(), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn lines_end_in_three_ways_and_may_be_cut_anywhere() {
        for text in [
            "event: a\ndata: é\n\ndata: 2\n\n",
            "event: a\r\ndata: é\r\n\r\ndata: 2\r\n\r\n",
            "event: a\rdata: é\r\rdata: 2\r\r",
        ] {
            for at in 0..=text.len() {
                let (one, other) = text.as_bytes().split_at(at);
                let (events, _) = read(&[one, b"", other]);
                assert_eq!(events, [event("a", "é"), event("message", "2")], "{text:?} cut at {at}");
            }
        }
    }

    #[test]
    fn what_does_not_end_is_given_up() {
        let megabyte = vec![b'x'; 1 << 20];
        let (mut reader, mut events) = (Reader::default(), Vec::new());
        assert_eq!((0..32).try_for_each(|_| reader.take(&megabyte, &mut events)), Ok(()));
        assert_eq!(reader.take(b"x", &mut events), Err(TooLong));
        let line = [b"data: ", &*megabyte, b"\n"].concat();
        let mut reader = Reader::default();
        assert!((0..33).any(|_| reader.take(&line, &mut events).is_err()), "many lines are no shorter");
        assert!(events.is_empty());
    }

    /// Pieces of lines, in any order and cut anywhere, bring the same events as all of it at once; `CAROM_SEED=n` reruns one.
    #[test]
    fn however_it_is_cut_the_same_comes_out() {
        let only = std::env::var("CAROM_SEED").ok().map(|seed| seed.parse().expect("a number"));
        let seeds = only.map_or(1..2000, |seed: u64| seed..seed + 1);
        for seed in seeds {
            let mut chance = Chance(seed);
            let pieces: [&[u8]; 14] = [
                b"data",
                b":",
                b" ",
                b"\r",
                b"\n",
                b"\r\n",
                b"event",
                b"retry: 12",
                b"\xef\xbb\xbf",
                b"\xff",
                "é股".as_bytes(),
                b"\0",
                b"data: x\n\n",
                b"\n\n",
            ];
            let text: Vec<u8> =
                (0..chance.below(60)).flat_map(|_| pieces[chance.below(pieces.len())].to_vec()).collect();
            let (whole, one) = read(&[&text]);
            let (mut rest, mut parts) = (&*text, Vec::new());
            while !rest.is_empty() {
                let (part, after) = rest.split_at(1 + chance.below(rest.len().min(9)));
                parts.push(part);
                rest = after;
            }
            let (cut, other) = read(&parts);
            assert_eq!((&whole, one.retry()), (&cut, other.retry()), "CAROM_SEED={seed}: {text:?}");
            assert!(whole.iter().all(|event| !event.name.contains(['\r', '\n']) && !event.data.contains('\r')));
        }
    }

    struct Chance(u64);

    impl Chance {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % bound
        }
    }
}

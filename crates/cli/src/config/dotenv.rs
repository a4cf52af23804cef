//! A `.env` file, as OpenAlgo's users have one: `NAME = 'value'`, with comments, quotes and `export`.
//!
//! Values are taken as they are written; names in them are not replaced. What makes no sense is somebody else's as long as it is
//! about nothing that matters here: Python's reader of such files passes over it, too.

/// A line that makes no sense: its number, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) line: usize,
    pub(super) problem: &'static str,
}

/// A variable: its name, its value, and the line that it begins in.
pub(super) type Variable = (String, String, usize);

/// Every variable of a file, in its order. Lines that make no sense are passed over, unless one of these names is in them.
pub(super) fn parse(text: &str, names: &[&str]) -> Result<Vec<Variable>, Malformed> {
    let mut reader = Reader { rest: text, line: 1 };
    let mut variables = Vec::new();
    loop {
        let before = reader.rest;
        match reader.variable() {
            Ok(Some(variable)) => variables.push(variable),
            Ok(None) => return Ok(variables),
            Err(malformed) => {
                reader.skip_line();
                let passed = &before[..before.len() - reader.rest.len()];
                if said(passed).any(|word| names.contains(&word)) {
                    return Err(malformed);
                }
            }
        }
    }
}

/// The words of lines that are no comments.
fn said(lines: &str) -> impl Iterator<Item = &str> {
    let said = lines.lines().filter(|line| !line.trim_start().starts_with('#'));
    said.flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    /// The next variable; `None` at the end.
    fn variable(&mut self) -> Result<Option<Variable>, Malformed> {
        loop {
            self.skip_blanks();
            match self.rest.chars().next() {
                None => return Ok(None),
                Some('\n') => self.advance(1),
                Some('#') => self.skip_line(),
                Some(_) => break,
            }
        }
        let line = self.line;
        let malformed = |problem| Malformed { line, problem };
        if let Some(rest) = self.rest.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])) {
            self.rest = rest;
            self.skip_blanks();
        }
        let name = self.name().ok_or_else(|| malformed("this is no NAME=VALUE"))?;
        self.skip_blanks();
        self.rest = self.rest.strip_prefix('=').ok_or_else(|| malformed("there is no = after the name"))?;
        self.skip_blanks();
        let value = match self.rest.chars().next() {
            Some(quote @ ('\'' | '"')) => self.quoted(quote).ok_or_else(|| malformed("a quote is not closed"))?,
            _ => return Ok(Some((name, self.bare(), line))),
        };
        self.skip_blanks();
        if !(self.rest.is_empty() || self.rest.starts_with(['\n', '#'])) {
            return Err(malformed("something follows the closing quote"));
        }
        Ok(Some((name, value, line)))
    }

    fn name(&mut self) -> Option<String> {
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let name = self.rest[..end].to_owned();
        self.rest = &self.rest[end..];
        (!name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
    }

    /// Up to the end of the line, or a comment that stands apart.
    fn bare(&mut self) -> String {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let (value, rest) = self.rest.split_at(end);
        self.rest = rest;
        let comment =
            value.char_indices().find(|(at, c)| *c == '#' && (*at == 0 || value[..*at].ends_with([' ', '\t'])));
        value[..comment.map_or(value.len(), |(at, _)| at)].trim().to_owned()
    }

    /// Up to the closing quote, perhaps over several lines. Between double quotes a backslash makes the next character special.
    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut value = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.advance(at + 1);
                    return Some(value);
                }
                '\\' if quote == '"' => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    't' => value.push('\t'),
                    'r' => value.push('\r'),
                    c @ ('"' | '\\' | '$') => value.push(c),
                    c => value.extend(['\\', c]),
                },
                '\\' => match chars.clone().next() {
                    Some((_, c)) if c == quote || c == '\\' => value.extend(chars.next().map(|(_, c)| c)),
                    _ => value.push('\\'),
                },
                c => value.push(c),
            }
        }
        None
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\u{feff}']);
    }

    fn skip_line(&mut self) {
        self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
    }

    /// Goes on after so many bytes, counting the lines in them.
    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_comments_and_export() {
        let text = "\
# OpenAlgo Environment Configuration File
BROKER_API_KEY = 'x'

export A=1 # one
  B = \"two # not a comment\\n\\\"\\\\\" # but this
C='single \\n \\' quote'
D=
E=#nothing
F=a#b
G = 'over
two lines'
H=last";
        let expected = [
            ("BROKER_API_KEY", "x", 2),
            ("A", "1", 4),
            ("B", "two # not a comment\n\"\\", 5),
            ("C", "single \\n ' quote", 6),
            ("D", "", 7),
            ("E", "", 8),
            ("F", "a#b", 9),
            ("G", "over\ntwo lines", 10),
            ("H", "last", 12),
        ];
        let expected: Vec<_> = expected.map(|(name, value, line)| (name.to_owned(), value.to_owned(), line)).into();
        assert_eq!(parse(text, &[]), Ok(expected.clone()));
        assert_eq!(parse(&text.replace('\n', "\r\n"), &[]).unwrap().len(), expected.len(), "lines that Windows ends");
        assert_eq!(parse("", &[]), Ok(Vec::new()));
    }

    #[test]
    fn lines_that_matter_and_make_no_sense_are_numbered() {
        for (text, line, problem) in [
            ("B=1\nA nonsense\n", 2, "there is no = after the name"),
            ("B=1\n\n- A=2\n", 3, "this is no NAME=VALUE"),
            ("A='1\nB=2\n", 1, "a quote is not closed"),
            ("A='it''s'", 1, "something follows the closing quote"),
            ("A=\"1\\\"\n", 1, "a quote is not closed"),
            ("B='over\ntwo'\nA='1' 2", 3, "something follows the closing quote"),
            ("A-B=1", 1, "there is no = after the name"),
            ("B='over\nA=1\nC='2'", 1, "something follows the closing quote"),
        ] {
            assert_eq!(parse(text, &["X", "A"]), Err(Malformed { line, problem }), "{text}");
        }
    }

    #[test]
    fn other_lines_that_make_no_sense_are_passed_over() {
        for nonsense in ["nonsense", "=2", "1B=2", "B='1", "B='it''s'", "B=\"1\\\"", "\u{fffd}=1", "# A\nAB-A_B 1"] {
            let text = format!("{nonsense}\nA=1\n");
            let line = text.lines().count();
            assert_eq!(parse(&text, &["A"]), Ok(vec![("A".to_owned(), "1".to_owned(), line)]), "{nonsense}");
        }
    }
}

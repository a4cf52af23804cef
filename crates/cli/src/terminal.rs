//! How large the terminal is, and what fits into a line of it.

/// What is taken for granted when nobody says.
const USUAL: (usize, usize) = (80, 24);

/// Columns and lines of the one that stdout is.
#[cfg(unix)]
pub(crate) fn size() -> (usize, usize) {
    size_of(std::io::stdout())
}

/// Columns of the one that stderr is.
#[cfg(unix)]
pub(crate) fn columns_of_stderr() -> usize {
    size_of(std::io::stderr()).0
}

#[cfg(unix)]
fn size_of(terminal: impl std::os::fd::AsFd) -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(terminal);
    let size = size.ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or(USUAL, |size| (size.ws_col.into(), size.ws_row.into()))
}

/// Columns and lines of the one that stdout is.
#[cfg(not(unix))]
pub(crate) fn size() -> (usize, usize) {
    USUAL
}

/// Columns of the one that stderr is.
#[cfg(not(unix))]
pub(crate) fn columns_of_stderr() -> usize {
    USUAL.0
}

/// What fits into so many columns. A character that is not ASCII may take two; then a line ends early rather than late.
pub(crate) fn cut(line: &str, width: usize) -> &str {
    let mut columns = 0;
    let beyond = line.char_indices().find(|(_, c)| {
        columns += if c.is_ascii() { 1 } else { 2 };
        columns > width
    });
    &line[..beyond.map_or(line.len(), |(at, _)| at)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_the_terminal_does() {
        assert_eq!((cut("NSE:SBIN", 8), cut("NSE:SBIN", 7), cut("", 0)), ("NSE:SBIN", "NSE:SBI", ""));
        assert_eq!((cut("股票A", 5), cut("股票A", 4), cut("股票A", 3)), ("股票A", "股票", "股"));
    }
}

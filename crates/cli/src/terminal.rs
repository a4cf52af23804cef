//! How large the terminal is.

/// What is taken for granted when nobody says.
const USUAL: (usize, usize) = (80, 24);

/// Columns and lines.
#[cfg(unix)]
pub(crate) fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let size = size.ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or(USUAL, |size| (size.ws_col.into(), size.ws_row.into()))
}

/// Columns and lines.
#[cfg(not(unix))]
pub(crate) fn size() -> (usize, usize) {
    USUAL
}

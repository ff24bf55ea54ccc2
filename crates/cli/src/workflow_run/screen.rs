//! A picture at the bottom of a terminal that is drawn again and again.

use std::io::{self, Write as _};

use crate::output::{self, Output};

/// Where the terminal does not say how high it is.
const HEIGHT_DEFAULT: u16 = 24;
/// Lines that are left for the prompt and for what was said before.
const LINES_SPARED: usize = 2;

/// Draws on stderr, over what it drew before.
pub(super) struct Screen {
    n_drawn: usize,
}

impl Screen {
    /// Where somebody watches, and not otherwise.
    pub(super) fn new(output: Output) -> Option<Self> {
        let is_live = output.is_for_people() && output::stderr_is_terminal();
        is_live.then_some(Self { n_drawn: 0 })
    }

    /// So many lines can be drawn.
    pub(super) fn height() -> usize {
        let size = rustix::termios::tcgetwinsize(io::stderr());
        let rows = size.map_or(0, |size| size.ws_row);
        let rows = if rows == 0 { HEIGHT_DEFAULT } else { rows };
        usize::from(rows).saturating_sub(LINES_SPARED).max(1)
    }

    pub(super) fn draw(&mut self, lines: &[String]) {
        let mut text = self.erased();
        // Without line wrapping the terminal itself cuts what is too long.
        text.push_str("\x1b[?7l");
        for line in lines {
            text.push_str(&plain_if_wanted(line));
            text.push('\n');
        }
        text.push_str("\x1b[?7h");
        write(&text);
        self.n_drawn = lines.len();
    }

    /// Says something above the picture, which must be drawn again.
    pub(super) fn note(&mut self, line: &str) {
        let text = format!("{}{}\n", self.erased(), plain_if_wanted(line));
        write(&text);
        self.n_drawn = 0;
    }

    fn erased(&self) -> String {
        match self.n_drawn {
            0 => String::new(),
            n => format!("\x1b[{n}A\r\x1b[J"),
        }
    }
}

/// Movements are no colours: they stay where colours are not wanted.
fn plain_if_wanted(line: &str) -> String {
    match anstream::AutoStream::choice(&io::stderr()) {
        anstream::ColorChoice::Never => anstream::adapter::strip_str(line).to_string(),
        _ => line.to_owned(),
    }
}

fn write(text: &str) {
    // In one piece, so that nobody sees half a picture. A terminal that went away needs none.
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

//! Lines of an event stream become events (WHATWG, server-sent events).

/// One event as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where to go on after it.
    pub(crate) id: Option<u64>,
    /// What it is about.
    pub(crate) event: String,
    /// JSON.
    pub(crate) data: String,
}

/// Puts lines together.
#[derive(Debug, Default)]
pub(super) struct Frames {
    open: Frame,
}

impl Frames {
    /// Takes a line; an empty one ends an event. One without data moves the reader's place on.
    pub(super) fn take(&mut self, line: &str) -> Option<Frame> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            let frame = std::mem::take(&mut self.open);
            return (!frame.data.is_empty() || frame.id.is_some()).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.open.id = value.parse().ok(),
            "event" => value.clone_into(&mut self.open.event),
            "data" => {
                if !self.open.data.is_empty() {
                    self.open.data.push('\n');
                }
                self.open.data.push_str(value);
            }
            // Comments keep the line alive, and other fields are not ours.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events() {
        let lines = [
            ": heartbeat",
            "",
            ": heartbeat",
            "id: 6",
            "",
            "id: 7",
            "event: run.status",
            "data: {\"a\":",
            "data: 1}",
            "",
            "retry: 5",
            "data:x\r",
            "\r",
        ];
        let mut frames = Frames::default();
        let heard: Vec<_> = lines.into_iter().filter_map(|line| frames.take(line)).collect();
        let first = Frame { id: Some(7), event: "run.status".into(), data: "{\"a\":\n1}".into() };
        let place = Frame { id: Some(6), ..Frame::default() };
        let last = Frame { data: "x".into(), ..Frame::default() };
        assert_eq!(heard, [place, first, last]);
    }
}

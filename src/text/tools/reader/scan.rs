//! Scans of text that may be incomplete.

/// The state of a scan through a JSON value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scan {
    pub depth: usize,
    pub in_string: bool,
    pub escaped: bool,
}

impl Scan {
    /// Advances by a character; false if it is invalid in JSON here.
    pub fn takes(&mut self, c: char) -> bool {
        if self.in_string {
            match c {
                '"' if !self.escaped => self.in_string = false,
                _ => {}
            }
            self.escaped = c == '\\' && !self.escaped;
            return true;
        }
        match c {
            '"' => self.in_string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            _ => return !matches!(c, '<' | ';'),
        }
        true
    }
}

/// Length of the longest suffix of the text that is a proper prefix of the marker.
pub fn begun(text: &str, marker: &str) -> usize {
    let mut cuts = marker.char_indices().map(|(at, _)| at).rev();
    cuts.find(|&cut| text.ends_with(&marker[..cut])).unwrap_or(0)
}

/// The last character of a text, empty if it has none.
pub fn last(text: &str) -> &str {
    text.char_indices().last().map_or("", |(at, _)| &text[at..])
}

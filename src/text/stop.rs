//! Stop strings: text that may become one is held back until that is decided.

/// Cuts a stream of text before or after the first stop string that is completed.
///
/// The result does not depend on how the stream is cut into pieces.
pub struct StopFilter {
    stops: Vec<String>,
    /// Whether the stop string stays in the text.
    keeps: bool,
    /// Text held back: the start of at least one stop string.
    held: String,
    stopped: bool,
}

impl StopFilter {
    /// A filter for these stop strings; the one that is found stays in the text if `keeps`. Empty strings
    /// never match.
    pub fn new(mut stops: Vec<String>, keeps: bool) -> Self {
        stops.retain(|stop| !stop.is_empty());
        StopFilter { stops, keeps, held: String::new(), stopped: false }
    }

    /// Takes the next piece and returns the text that is now certain to be before the cut.
    pub fn push(&mut self, piece: &str) -> String {
        if self.stopped {
            return String::new();
        }
        self.held.push_str(piece);
        // The string completed first wins; of those that end together, the longest.
        let found = self.stops.iter().filter_map(|stop| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start))
        });
        let keep_from = match found.min() {
            Some((end, start)) => {
                self.stopped = true;
                if self.keeps { end } else { start }
            }
            None => self.held.len() - self.undecided(),
        };
        let rest = self.held.split_off(keep_from);
        let text = std::mem::replace(&mut self.held, rest);
        if self.stopped {
            self.held.clear();
        }
        text
    }

    /// Whether a stop string was found; no more text is returned then.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Ends the stream and returns what was held back.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Length of the longest suffix of the held text that is a prefix of a stop string.
    fn undecided(&self) -> usize {
        let overlap = |stop: &String| {
            let mut cuts = stop.char_indices().map(|(at, _)| at).rev();
            cuts.find(|&cut| self.held.ends_with(&stop[..cut])).unwrap_or(0)
        };
        self.stops.iter().map(overlap).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The output for each piece, then that of `finish`.
    fn run(stops: &[&str], pieces: &[&str]) -> (Vec<String>, String, bool) {
        let mut filter = StopFilter::new(stops.iter().map(|s| s.to_string()).collect(), false);
        let out = pieces.iter().map(|piece| filter.push(piece)).collect();
        let stopped = filter.stopped();
        (out, filter.finish(), stopped)
    }

    #[test]
    fn only_what_may_become_a_stop_string_is_held_back() {
        let (out, rest, stopped) = run(&["END"], &["an E", "N", "d, E", "x"]);
        assert_eq!(out, ["an ", "", "ENd, ", "Ex"]);
        assert_eq!((rest.as_str(), stopped), ("", false));
        let (out, rest, stopped) = run(&["END"], &["the EN"]);
        assert_eq!((out[0].as_str(), rest.as_str(), stopped), ("the ", "EN", false));
    }

    #[test]
    fn the_stop_string_and_the_text_after_it_are_cut() {
        let (out, rest, stopped) = run(&["\n\n", "Q:"], &["A\n", "\nQ", ": more"]);
        assert_eq!(out, ["A", "", ""]);
        assert_eq!((rest.as_str(), stopped), ("", true));
    }

    #[test]
    fn a_failed_match_may_hold_the_start_of_another() {
        let (out, rest, stopped) = run(&["aab"], &["a", "a", "a", "b"]);
        assert_eq!(out, ["", "", "a", ""]);
        assert_eq!((rest.as_str(), stopped), ("", true));
    }

    #[test]
    fn the_string_completed_first_wins_and_then_the_longest() {
        assert_eq!(run(&["abcd", "bc"], &["xabcd"]).0, ["xa"]);
        assert_eq!(run(&["abcd", "bc"], &["xa", "bcd"]).0, ["x", "a"]);
        assert_eq!(run(&["c", "abc"], &["xabc"]).0, ["x"]);
    }

    #[test]
    fn without_stop_strings_all_text_passes_at_once() {
        let (out, rest, stopped) = run(&[""], &["abc", "é"]);
        assert_eq!((out.concat().as_str(), rest.as_str(), stopped), ("abcé", "", false));
    }

    /// The definition, character by character: cut at the first string to be completed.
    fn expected(stops: &[String], keeps: bool, text: &str) -> (String, bool) {
        for (at, c) in text.char_indices() {
            let so_far = &text[..at + c.len_utf8()];
            let ends = stops.iter().filter(|stop| so_far.ends_with(stop.as_str()));
            if let Some(longest) = ends.map(String::len).max() {
                let cut = if keeps { 0 } else { longest };
                return (so_far[..so_far.len() - cut].to_owned(), true);
            }
        }
        (text.to_owned(), false)
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_text(
            stops in prop::collection::vec("[aé]{1,3}b?", 0..4),
            pieces in prop::collection::vec("[aéb]{0,6}", 0..8),
            keeps in any::<bool>(),
        ) {
            let (text, stop) = expected(&stops, keeps, &pieces.concat());
            let longest = stops.iter().map(|stop| stop.chars().count()).max().unwrap_or(1);
            let mut filter = StopFilter::new(stops, keeps);
            let mut out = String::new();
            let mut fed = String::new();
            for piece in &pieces {
                out.push_str(&filter.push(piece));
                fed.push_str(piece);
                if !filter.stopped() {
                    prop_assert!(fed.chars().count() - out.chars().count() < longest);
                }
            }
            prop_assert_eq!(filter.stopped(), stop);
            out.push_str(&filter.finish());
            prop_assert_eq!(out, text);
        }
    }
}

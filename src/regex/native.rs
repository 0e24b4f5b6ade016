//! Regular expressions with the crate `fancy-regex`.

use tokenizers::Result;

/// A regular expression.
pub struct Regex(fancy_regex::Regex);

impl Regex {
    pub fn new(pattern: &str) -> Result<Regex> {
        Ok(Regex(fancy_regex::Regex::new(pattern)?))
    }

    /// Start and end of all matches, in order, in bytes.
    ///
    /// Fails if the search backtracks too often.
    pub fn find_all(&self, text: &str) -> Result<Vec<(usize, usize)>> {
        self.0.find_iter(text).map(|found| Ok(found.map(|at| (at.start(), at.end()))?)).collect()
    }
}

//! How a tool gets onto the machine.

/// Where a missing tool comes from.
#[derive(Debug, PartialEq)]
pub enum Source {
    /// Packages of Debian or Ubuntu.
    Apt(&'static [&'static str]),
    /// A command that needs no special rights; it runs in the repository's root.
    Command(Vec<String>),
    /// Nothing that a command could do: what a person does.
    Hand(&'static str),
}

impl Source {
    pub fn command<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Self {
        Self::Command(words.into_iter().map(|word| word.as_ref().to_owned()).collect())
    }
}

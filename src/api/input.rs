//! Input texts of a request: one or several, as strings or as token ids.

use serde::{Deserialize, Deserializer, de::SeqAccess};

use super::{refusal::invalid, typed::TextOrList};
use crate::error::Result;

/// One text or several, as strings or as token ids.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<i64>),
    TokenLists(Vec<Vec<i64>>),
}

/// The first of several texts, which says what the others are.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string, a token id or a list of token ids")]
enum First {
    Text(String),
    Token(i64),
    Tokens(Vec<i64>),
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(deserializer)
    }
}

impl TextOrList for Input {
    const EXPECTED: &'static str =
        "a string, a list of strings, a list of token ids or a list of such lists";

    fn text(text: String) -> Self {
        Input::Text(text)
    }

    fn list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        match list.next_element()? {
            None => Ok(Input::Texts(Vec::new())),
            Some(First::Text(text)) => and_rest(text, list).map(Input::Texts),
            Some(First::Token(id)) => and_rest(id, list).map(Input::Tokens),
            Some(First::Tokens(ids)) => and_rest(ids, list).map(Input::TokenLists),
        }
    }
}

/// A list whose first element is read already.
fn and_rest<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(
    first: T,
    mut list: A,
) -> Result<Vec<T>, A::Error> {
    let mut all = vec![first];
    while let Some(next) = list.next_element()? {
        all.push(next);
    }
    Ok(all)
}

/// One text, as a string or already tokenised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextInput {
    /// Not empty.
    Text(String),
    /// At least one.
    Tokens(Vec<u32>),
}

impl Input {
    /// Checks each text of the parameter `param`; at most `most` texts are allowed.
    pub(super) fn read(
        input: Option<Input>,
        param: &str,
        most: usize,
        purpose: &str,
    ) -> Result<Vec<TextInput>> {
        let at = |i: usize| format!("{param}[{i}]");
        let text = |param: String, text: String| match text.is_empty() {
            true => Err(invalid(param, "an empty text", purpose)),
            false => Ok(TextInput::Text(text)),
        };
        let inputs = match input {
            None => {
                return Err(invalid(param, "nothing", "a text, token ids, or a list of either"));
            }
            Some(Input::Text(one)) => vec![text(param.into(), one)?],
            Some(Input::Texts(all)) => all
                .into_iter()
                .enumerate()
                .map(|(i, one)| text(at(i), one))
                .collect::<Result<_>>()?,
            Some(Input::Tokens(one)) => vec![tokens(param.into(), one)?],
            Some(Input::TokenLists(all)) => all
                .into_iter()
                .enumerate()
                .map(|(i, one)| tokens(at(i), one))
                .collect::<Result<_>>()?,
        };
        if !(1..=most).contains(&inputs.len()) {
            let found = format!("{} texts", inputs.len());
            return Err(invalid(param, found, &format!("1 to {most}")));
        }
        Ok(inputs)
    }
}

fn tokens(param: String, ids: Vec<i64>) -> Result<TextInput> {
    if ids.is_empty() {
        return Err(invalid(param, "no tokens", "at least one"));
    }
    let id = |id: i64| u32::try_from(id).map_err(|_| invalid(&*param, id, "token ids"));
    Ok(TextInput::Tokens(ids.into_iter().map(id).collect::<Result<_>>()?))
}

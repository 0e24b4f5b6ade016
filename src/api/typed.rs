//! Deserialises JSON values; errors carry the path of the value that does not fit.

use std::{fmt, marker::PhantomData};

use serde::de::{
    Deserialize, Deserializer, Error, SeqAccess, Visitor, value::SeqAccessDeserializer,
};

/// Most bytes of a reason: values of any length are quoted in them.
const LONGEST: usize = 500;

/// The path of the value that does not fit its type (`None`: the whole value), and the reason.
pub(crate) type Misfit = (Option<String>, String);

/// Reads a type from a value.
///
/// Error paths generate code for every pair of type and input format, so keep the formats few: a value
/// or a map of values.
pub(crate) fn typed<'de, T: Deserialize<'de>>(value: impl Deserializer<'de>) -> Result<T, Misfit> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        (Some(path).filter(|path| path != "."), shortened(error.inner().to_string()))
    })
}

/// A reason without its middle, if it is too long: what was expected comes last.
fn shortened(reason: String) -> String {
    if reason.len() <= LONGEST {
        return reason;
    }
    let begin = reason.floor_char_boundary(LONGEST / 2);
    let end = reason.ceil_char_boundary(reason.len() - LONGEST / 2);
    format!("{}…{}", &reason[..begin], &reason[end..])
}

/// A union of a string and a list. Unlike an untagged enum it tells misfits by their places in the list.
pub(super) trait TextOrList: Sized {
    const EXPECTED: &'static str;

    fn text(text: String) -> Self;

    fn list<'de, A: SeqAccess<'de>>(list: A) -> Result<Self, A::Error>;

    fn of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Union(PhantomData))
    }
}

/// Reads a whole list.
pub(super) fn all<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(
    list: A,
) -> Result<Vec<T>, A::Error> {
    Deserialize::deserialize(SeqAccessDeserializer::new(list))
}

struct Union<T>(PhantomData<T>);

impl<'de, T: TextOrList> Visitor<'de> for Union<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::list(list)
    }
}

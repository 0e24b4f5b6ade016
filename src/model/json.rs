//! Checked access to the fields of a JSON file; errors name file, field, value and expectation.

use crate::error::{Error, Result};
use crate::sniff::impostor;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// A JSON object of a configuration file. A field that is null counts as absent.
#[derive(Clone, Debug)]
pub struct Fields {
    file: String,
    /// Path of the object in the file: empty, or ending with a dot.
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// Parses a file that holds one object.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Fields> {
        let malformed = |found: String| Error::Malformed {
            what: file.into(),
            expected: "JSON object".into(),
            found,
        };
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(map)) => Ok(Fields { file: file.into(), path: String::new(), map }),
            Ok(other) => Err(malformed(format!("found {}", excerpt(&other)))),
            Err(error) => Err(malformed(
                impostor(bytes).map_or_else(|| error.to_string(), |found| found.to_string()),
            )),
        }
    }

    /// The fields of `map` whose names begin with `path`, which ends with a dot.
    pub fn section(file: &str, map: &Map<String, Value>, path: &str) -> Fields {
        let map = map
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix(path)?.to_owned(), value.clone())));
        Fields { file: file.into(), path: path.into(), map: map.collect() }
    }

    /// The error for a field whose value is not what is expected.
    pub fn invalid(&self, field: &str, expected: impl Display) -> Error {
        let found = self.map.get(field).map_or_else(|| "missing".into(), excerpt);
        self.invalid_as(field, found, expected)
    }

    /// The error for a field whose interpreted value, `found`, is not what is expected.
    pub fn invalid_as(&self, field: &str, found: impl Display, expected: impl Display) -> Error {
        Error::InvalidConfig {
            file: self.file.clone(),
            field: format!("{}{field}", self.path),
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }

    /// Returns the value of a field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    /// Replaces lists that hold the same number for each of `layers` by that number.
    pub fn join_layers(&mut self, layers: usize) {
        for value in self.map.values_mut() {
            if let Value::Array(list) = value
                && list.len() == layers
                && let Some(first) = list.first().filter(|first| first.is_number())
                && list.iter().all(|other| other == first)
            {
                *value = first.clone();
            }
        }
    }

    /// Sets the value of an absent field.
    pub fn set_default(&mut self, field: &str, value: Value) {
        if self.get(field).is_none() {
            self.map.insert(field.into(), value);
        }
    }

    /// Returns true if and only if the field is present, even if it is null.
    pub fn has(&self, field: &str) -> bool {
        self.map.contains_key(field)
    }

    /// Returns an integer within `range`.
    pub fn count(&self, field: &str, range: RangeInclusive<usize>) -> Result<usize> {
        let (low, high) = (range.start(), range.end());
        let value = self.get(field).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        value.filter(|n| range.contains(n)).ok_or_else(|| {
            self.invalid(field, format!("an integer from {low} to {high}{}", self.alike(field)))
        })
    }

    /// Returns an integer within `range`, or `default` if the field is absent.
    pub fn count_or(
        &self,
        field: &str,
        range: RangeInclusive<usize>,
        default: usize,
    ) -> Result<usize> {
        self.get(field).map_or(Ok(default), |_| self.count(field, range))
    }

    /// Returns a number above 0.
    pub fn positive(&self, field: &str) -> Result<f64> {
        let value = self.get(field).and_then(Value::as_f64);
        value
            .filter(|x| x.is_finite() && *x > 0.0)
            .ok_or_else(|| self.invalid(field, format!("a number above 0{}", self.alike(field))))
    }

    /// What is expected of a field that has a list instead of a number.
    fn alike(&self, field: &str) -> &'static str {
        match self.get(field) {
            Some(Value::Array(_)) => ", the same for all layers",
            _ => "",
        }
    }

    /// Returns a number above 0, or `default` if the field is absent.
    pub fn positive_or(&self, field: &str, default: f64) -> Result<f64> {
        self.get(field).map_or(Ok(default), |_| self.positive(field))
    }

    /// Returns the epsilon of a norm, a number between 0 and 1.
    pub fn epsilon(&self, field: &str) -> Result<f32> {
        let value = self.positive(field)?;
        match value < 1.0 {
            true => Ok(value as f32),
            false => Err(self.invalid(field, "a number between 0 and 1")),
        }
    }

    /// Returns a boolean; false if the field is absent.
    pub fn flag(&self, field: &str) -> Result<bool> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.invalid(field, "true or false")),
        }
    }

    /// Returns a string; `None` if the field is absent.
    pub fn text(&self, field: &str) -> Result<Option<&str>> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.invalid(field, "a text")),
        }
    }

    /// Returns a list; empty if the field is absent.
    pub fn list(&self, field: &str) -> Result<&[Value]> {
        match self.get(field) {
            None => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(self.invalid(field, "a list")),
        }
    }

    /// Returns a nested object; `None` if the field is absent.
    pub fn object(&self, field: &str) -> Result<Option<Fields>> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Fields {
                file: self.file.clone(),
                path: format!("{}{field}.", self.path),
                map: map.clone(),
            })),
            Some(_) => Err(self.invalid(field, "an object")),
        }
    }

    /// The names of all fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.map.keys().map(String::as_str)
    }

    /// Returns an error unless the field is absent or one of `allowed`.
    pub fn require(&self, field: &str, allowed: &[Value], expected: &str) -> Result<()> {
        match self.get(field) {
            Some(value) if !allowed.contains(value) => Err(self.invalid(field, expected)),
            _ => Ok(()),
        }
    }
}

/// The value as JSON, shortened for messages.
fn excerpt(value: &Value) -> String {
    const LENGTH: usize = 80;
    let text = value.to_string();
    if text.chars().count() <= LENGTH {
        return text;
    }
    text.chars().take(LENGTH).chain(['…']).collect()
}

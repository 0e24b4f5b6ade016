//! A request's fields, read one by one. This takes less code in the wasm module than a derived type.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::refusal::{brief, invalid};
use super::typed;
use crate::error::{Error, Result};

/// The fields of a request by name, not yet checked; null counts as absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(BTreeMap<String, Value>);

impl Fields {
    /// Reads an object from any serde format.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if the value is not an object.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fields> {
        let refused = |message| Error::InvalidRequest { param: "request".into(), message };
        match Value::deserialize(deserializer) {
            Ok(Value::Object(fields)) => Ok(fields.into()),
            Ok(other) => Err(refused(format!("found {}, expected an object", brief(&other)))),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// Removes the field `name` and returns it unread.
    pub(crate) fn value(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Removes the required field `name` and reads it.
    pub(crate) fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T> {
        self.take(name)?.ok_or_else(|| invalid(name, "nothing", "this field"))
    }

    /// Removes the field `name` and reads it.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>> {
        let value = self.0.remove(name);
        let misfit = |(path, message): (Option<String>, String)| {
            // A list index follows without a dot: `prompt[1]`.
            let param = match path {
                None => name.into(),
                Some(path) if path.starts_with('[') => format!("{name}{path}"),
                Some(path) => format!("{name}.{path}"),
            };
            Error::InvalidRequest { param, message }
        };
        value.map(|value| typed(&value).map_err(misfit)).transpose()
    }

    /// Removes the fields with these names and returns them.
    pub(super) fn split_off(&mut self, names: &[&str]) -> Fields {
        Fields(names.iter().filter_map(|name| self.0.remove_entry(*name)).collect())
    }

    pub(crate) fn into_map(self) -> BTreeMap<String, Value> {
        self.0
    }
}

impl From<Map<String, Value>> for Fields {
    fn from(fields: Map<String, Value>) -> Fields {
        Fields(fields.into_iter().filter(|(_, value)| !value.is_null()).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::ChatCompletionRequest;

    fn fields(value: Value) -> Fields {
        Fields::read(value).unwrap()
    }

    #[test]
    fn each_field_is_taken_once_and_null_is_none() {
        let mut fields = fields(json!({ "a": 1, "b": null, "c": "x" }));
        assert_eq!(fields.take("a").unwrap(), Some(1));
        assert_eq!(fields.take::<i64>("a").unwrap(), None);
        assert_eq!(fields.take::<i64>("b").unwrap(), None);
        assert_eq!(fields.into_map(), BTreeMap::from([("c".into(), json!("x"))]));
    }

    #[test]
    fn type_errors_name_the_path() {
        let param = |error| match error {
            Error::InvalidRequest { param, .. } => param,
            other => panic!("{other:?}"),
        };
        let mut fields = fields(json!({ "a": "x", "b": [1, "x"] }));
        assert_eq!(param(fields.take::<i64>("a").unwrap_err()), "a");
        assert_eq!(param(fields.take::<Vec<i64>>("b").unwrap_err()), "b[1]");
        assert_eq!(param(Fields::read(json!([1])).unwrap_err()), "request");
    }

    #[test]
    fn the_rest_stays_when_some_are_split_off() {
        let mut all = fields(json!({ "a": 1, "b": 2, "n": 3 }));
        let some = ChatCompletionRequest::from_fields(all.split_off(&["n", "seed"]));
        assert_eq!(some.unwrap().n, Some(3));
        assert_eq!(all, fields(json!({ "a": 1, "b": 2 })));
    }
}

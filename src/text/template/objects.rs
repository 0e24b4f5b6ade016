//! Jinja's objects that keep a state.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{Object, ObjectRepr};
use minijinja::{Error, ErrorKind, State, Value};

use super::python::{Result, bind, invalid};

/// `cycler(…)`: gives its values in turn.
#[derive(Debug)]
struct Cycler {
    values: Vec<Value>,
    at: AtomicUsize,
}

impl Cycler {
    fn current(&self) -> Value {
        self.values[self.at.load(Ordering::Relaxed) % self.values.len()].clone()
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.current())
    }

    fn call_method(self: &Arc<Self>, _: &mut State, name: &str, _: &[Value]) -> Result<Value> {
        match name {
            "next" => {
                let current = self.current();
                self.at.fetch_add(1, Ordering::Relaxed);
                Ok(current)
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// `joiner(…)`: gives its separator from the second call on.
#[derive(Debug)]
struct Joiner {
    separator: Value,
    called: AtomicUsize,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State, _: &[Value]) -> Result<Value> {
        Ok(match self.called.fetch_add(1, Ordering::Relaxed) {
            0 => "".into(),
            _ => self.separator.clone(),
        })
    }
}

/// Jinja's function `cycler`.
pub fn cycler(values: &[Value]) -> Result<Value> {
    match values {
        [] => Err(invalid("cycler: expected the values to choose from")),
        values => {
            Ok(Value::from_object(Cycler { values: values.to_vec(), at: AtomicUsize::new(0) }))
        }
    }
}

/// Jinja's function `joiner`.
pub fn joiner(arguments: &[Value]) -> Result<Value> {
    let [separator] = bind(["sep"], arguments)?;
    let separator = separator.unwrap_or_else(|| ", ".into());
    Ok(Value::from_object(Joiner { separator, called: AtomicUsize::new(0) }))
}

//! Limits on what the steps of a rendering handle together.

use minijinja::{State, Value};

use super::python::{Result, invalid};

/// Bytes that all steps of a rendering may read and make together.
const MAX_WORK: usize = 256 << 20;

/// Bytes that a rendering has read and made so far.
#[derive(Debug)]
struct Work(usize);

/// Counts the work of a step: the values that it reads, and the one that it makes.
pub fn counted(state: &mut State, read: &[Value], made: Value) -> Result<Value> {
    let read = read.iter().map(|value| match value.as_str() {
        Some(text) => text.len(),
        None => value.len().unwrap_or(0),
    });
    let size = match made.as_str() {
        Some(text) => text.len(),
        None => made.len().unwrap_or(0).saturating_mul(size_of::<Value>()),
    };
    count(state, read.fold(size, usize::saturating_add))?;
    Ok(made)
}

pub fn count(state: &mut State, size: usize) -> Result<()> {
    let work = state.get_or_insert_extension_with(|| Work(0));
    work.0 = work.0.saturating_add(size);
    match work.0 > MAX_WORK {
        true => Err(invalid(format!("it handles more than {MAX_WORK} bytes of text and lists"))),
        false => Ok(()),
    }
}

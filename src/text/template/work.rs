//! Limits on what the steps of a rendering handle together.

use minijinja::{State, Value};

use super::python::{Result, invalid};

/// Instructions per rendering; a long conversation takes tens of thousands.
pub const MAX_FUEL: u64 = 5_000_000;
/// Instructions for each of the small conversations that show what a template takes.
pub const PROBE_FUEL: u64 = 100_000;
/// Bytes that all steps of a rendering with [`MAX_FUEL`] may read and make together; with less fuel, as much
/// less.
const MAX_WORK: u64 = 256 << 20;

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
    let (taken, left) = state.fuel_levels().unwrap_or((0, MAX_FUEL));
    let most = MAX_WORK.saturating_mul(taken + left) / MAX_FUEL;
    let work = state.get_or_insert_extension_with(|| Work(0));
    work.0 = work.0.saturating_add(size);
    match work.0 as u64 > most {
        true => Err(invalid(format!("it handles more than {most} bytes of text and lists"))),
        false => Ok(()),
    }
}

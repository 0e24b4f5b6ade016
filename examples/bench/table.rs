//! Measurements and their table.

use serde::{Deserialize, Serialize};

/// One measurement.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// What it was measured on: an adapter, a model, or a file.
    pub on: String,
    /// What was measured, e.g. `decode, batch 4`.
    pub name: String,
    pub value: f64,
    pub unit: String,
}

impl Row {
    pub fn new(on: &str, name: &str, value: f64, unit: &str) -> Row {
        Row { on: on.into(), name: name.into(), value, unit: unit.into() }
    }
}

/// The rows as text, grouped by `on`.
pub fn text(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    let mut on = None;
    for row in rows {
        if on != Some(&row.on) {
            text += &format!("{}\n", row.on);
            on = Some(&row.on);
        }
        let line = format!("  {:width$} {:>12} {}", row.name, number(row.value), row.unit);
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// About three digits: the measurements are not more precise.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 || size.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

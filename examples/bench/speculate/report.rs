//! The results as JSON and as tables.

use std::collections::BTreeMap;

use serde::Serialize;

/// Results by drafting, and by task or batch size.
pub type Figures<Column, Figure = f64> = BTreeMap<&'static str, BTreeMap<Column, Figure>>;

/// The name of the total over all tasks.
pub const ALL: &str = "all";

/// The measured effect of speculative decoding.
#[derive(Serialize)]
pub struct Report {
    pub adapter: String,
    /// Draft tokens per step, if their number is fixed.
    pub drafts: usize,
    /// Tokens per step of the target model, one answer at a time: `{drafter: {task: number}}`.
    pub tokens_per_step: Figures<String>,
    /// Tokens per second over all answers: `{off, adaptive or fixed: {batch: number}}`.
    pub tokens_per_second: Figures<usize>,
    /// Speed relative to `off`: over all rounds, with the quartiles of single rounds:
    /// `{adaptive or fixed: {batch: [low, all, high]}}`.
    pub over_off: Figures<usize, [f64; 3]>,
    /// Time of a step with 1, 2, … rows of one sequence, relative to a step with one row.
    pub row_costs: Vec<f64>,
    /// Time per draft token, relative to a step with one row: `{drafter: number}`.
    pub draft_costs: BTreeMap<&'static str, f64>,
    /// Time in which a drafter processes one row, relative to a step with one row.
    pub follow_costs: BTreeMap<&'static str, f64>,
    /// Seconds per step with one row, the wait included.
    pub step_seconds: f64,
}

impl Report {
    /// The report as tables.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\ntokens per step, {} drafts\n", self.adapter, self.drafts);
        let number = |number: &f64| format!("{number:.2}");
        text += &table(&self.tokens_per_step, |task| task == ALL, number);
        text += "\ntokens/s, by batch size\n";
        text += &table(&self.tokens_per_second, |_| false, number);
        text += "\nrelative to off: all rounds, and the quartiles of single ones\n";
        let quartiles = |[low, all, high]: &[f64; 3]| format!("{all:.3} {low:.2}-{high:.2}");
        text += &table(&self.over_off, |_| false, quartiles);
        text += &format!("\na step with one row: {:.2} ms\n", self.step_seconds * 1e3);
        for (rows, cost) in (1..).zip(&self.row_costs) {
            text += &format!("  with {rows} rows: {cost:.2} times that\n");
        }
        for (name, cost) in &self.draft_costs {
            text += &format!("  a draft, {name}: {cost:.2} times that\n");
        }
        for (name, cost) in &self.follow_costs {
            text += &format!("  reading of a row, {name}: {cost:.2} times that\n");
        }
        text
    }
}

/// A line per column of the figures; those in `last` come at the end.
fn table<Column: Ord + ToString, Figure>(
    figures: &Figures<Column, Figure>,
    last: fn(&Column) -> bool,
    show: fn(&Figure) -> String,
) -> String {
    let mut text = format!("  {:16}", "");
    for name in figures.keys() {
        text += &format!(" {name:>14}");
    }
    let columns = figures.values().flat_map(BTreeMap::keys);
    let mut columns: Vec<&Column> = columns.collect();
    columns.sort_by_key(|column| (last(column), *column));
    columns.dedup();
    for column in columns {
        text += &format!("\n  {:16}", column.to_string());
        for of in figures.values() {
            let cell = of.get(column).map_or(String::new(), show);
            text += &format!(" {cell:>14}");
        }
    }
    text + "\n"
}

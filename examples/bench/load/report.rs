//! Summaries of a load's records.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::{
    drive::{Outcome, Record},
    host::HostStep,
    workload::Kind,
};

/// Limits in seconds of the time to first token and the time per output token: MLPerf's for an 8B model
/// in conversations and in interactive use.
const RELAXED: (f64, f64) = (2.0, 0.1);
const STRICT: (f64, f64) = (0.5, 0.03);

/// The summary of a load. Times in seconds, rates per second.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub name: String,
    /// Answered requests.
    pub requests: usize,
    /// Requests that were refused because the queue was full.
    pub refused: usize,
    pub duration: f64,
    /// From the request's arrival to the first token.
    pub time_to_first_token: Percentiles,
    /// Mean per answer, after its first token.
    pub time_per_output_token: Percentiles,
    /// Over all tokens except each answer's first.
    pub inter_token_latency: Percentiles,
    /// Generated tokens per second.
    pub output_tokens_per_second: f64,
    /// Prompt tokens per second, cached or computed.
    pub prompt_tokens_per_second: f64,
    /// Answers per second that met both limits, 2 s and 100 ms.
    pub goodput_relaxed: f64,
    /// Answers per second that met both limits, 0.5 s and 30 ms.
    pub goodput_strict: f64,
    /// The same as fractions of all requests.
    pub met_relaxed: f64,
    pub met_strict: f64,
    /// Fraction of prompt tokens found in the prefix cache.
    pub cache_hit_rate: f64,
    pub kv_utilisation: f64,
    pub preemptions: u64,
    /// Fraction of prompt tokens that came from host memory, preempted requests included.
    pub restored: f64,
    /// Rows that were computed, for each that was needed: prompts without what was cached, and answers.
    pub rows: f64,
    pub longest_step: f64,
}

/// Percentiles in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
}

/// The output of `--json`: the key figures of the mixed load of eight tabs, and every run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What was measured: an adapter, or simulated time.
    pub on: String,
    /// Tokens per second of eight tabs, relative to one request at a time.
    pub throughput_ratio_8_tabs: f64,
    /// (p99 time to the first token during a long prompt − the longest step) / the same alone.
    pub ttft_p99_ratio: f64,
    pub kv_utilisation: f64,
    pub cache_hit_rate: f64,
    pub goodput_relaxed: f64,
    pub goodput_strict: f64,
    pub preemptions: u64,
    /// Host time to schedule a step on this machine.
    pub host_steps: Vec<HostStep>,
    pub runs: Vec<Summary>,
}

impl Record {
    /// Seconds to the first token.
    pub fn first_token(&self) -> f64 {
        let first = self.tokens.first().expect("an answer has a token");
        (*first - self.arrival).as_secs_f64()
    }

    fn per_token(&self) -> Option<f64> {
        let (first, last) = (self.tokens.first()?, self.tokens.last()?);
        let rest = self.tokens.len() - 1;
        (rest > 0).then(|| (*last - *first).as_secs_f64() / rest as f64)
    }

    fn meets(&self, (first_token, per_token): (f64, f64)) -> bool {
        self.first_token() <= first_token && self.per_token().is_none_or(|time| time <= per_token)
    }
}

impl Outcome {
    /// The requests of one kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| record.kind == kind)
    }

    /// Generated tokens per second while every tab was active.
    pub fn busy_throughput(&self) -> f64 {
        let mut ends = BTreeMap::new();
        for record in &self.records {
            ends.insert(record.tab, *record.tokens.last().expect("an answer has a token"));
        }
        let end = ends.into_values().min().unwrap_or_default();
        let tokens = self.records.iter().flat_map(|record| &record.tokens);
        let since = end - self.start;
        tokens.filter(|time| **time <= end).count() as f64 / since.as_secs_f64()
    }

    pub fn longest_step(&self) -> f64 {
        self.steps.iter().max().map_or(0.0, Duration::as_secs_f64)
    }

    pub fn summary(&self, name: &str) -> Summary {
        let (records, duration) = (&self.records, self.duration.as_secs_f64());
        let met = |limits| records.iter().filter(|record| record.meets(limits)).count() as f64;
        let (relaxed, strict) = (met(RELAXED), met(STRICT));
        let sent = (records.len() + self.refused).max(1) as f64;
        let gaps = records.iter().flat_map(|record| record.tokens.windows(2));
        let prompts: usize = records.iter().map(|record| record.usage.prompt_tokens).sum();
        let answers: usize = records.iter().map(|record| record.tokens.len()).sum();
        let cached: usize = records.iter().map(|record| record.usage.cached_tokens).sum();
        let needed = prompts - cached + answers - records.len();
        let metrics = &self.metrics;
        Summary {
            name: name.into(),
            requests: records.len(),
            refused: self.refused,
            duration,
            time_to_first_token: Percentiles::of(records.iter().map(Record::first_token)),
            time_per_output_token: Percentiles::of(records.iter().filter_map(Record::per_token)),
            inter_token_latency: Percentiles::of(
                gaps.map(|pair| (pair[1] - pair[0]).as_secs_f64()),
            ),
            output_tokens_per_second: answers as f64 / duration,
            prompt_tokens_per_second: prompts as f64 / duration,
            goodput_relaxed: relaxed / duration,
            goodput_strict: strict / duration,
            met_relaxed: relaxed / sent,
            met_strict: strict / sent,
            cache_hit_rate: cached as f64 / prompts.max(1) as f64,
            kv_utilisation: self.kv_utilisation,
            preemptions: metrics.num_preemptions,
            restored: metrics.restored_tokens as f64 / prompts.max(1) as f64,
            rows: metrics.iteration_tokens_total.sum / needed.max(1) as f64,
            longest_step: self.longest_step(),
        }
    }
}

impl Percentiles {
    /// Percentiles of the values, interpolated linearly; 0 without values.
    pub fn of(values: impl Iterator<Item = f64>) -> Percentiles {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * sorted.len().saturating_sub(1) as f64;
            let value = |at: f64| sorted.get(at as usize).copied().unwrap_or_default();
            let (below, above) = (value(place.floor()), value(place.ceil()));
            below + (above - below) * place.fract()
        };
        Percentiles { p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }

    fn text(&self) -> String {
        let [p50, p90, p99] = [self.p50, self.p90, self.p99].map(|seconds| seconds * 1e3);
        format!("{p50:.0} / {p90:.0} / {p99:.0}")
    }
}

impl Report {
    /// The report as a table: a row per figure, a column per run.
    pub fn text(&self) -> String {
        type Cell = fn(&Summary) -> String;
        let rows: [(&str, Cell); 16] = [
            ("", |run| run.name.clone()),
            ("requests", |run| run.requests.to_string()),
            ("refused", |run| run.refused.to_string()),
            ("first token, ms", |run| run.time_to_first_token.text()),
            ("per token, ms", |run| run.time_per_output_token.text()),
            ("between tokens, ms", |run| run.inter_token_latency.text()),
            ("output tokens/s", |run| format!("{:.0}", run.output_tokens_per_second)),
            ("prompt tokens/s", |run| format!("{:.0}", run.prompt_tokens_per_second)),
            ("goodput/s, 2 s and 100 ms", |run| share(run.goodput_relaxed, run.met_relaxed)),
            ("goodput/s, 0.5 s and 30 ms", |run| share(run.goodput_strict, run.met_strict)),
            ("prompt tokens cached", |run| format!("{:.0} %", 100.0 * run.cache_hit_rate)),
            ("prompt tokens from host memory", |run| format!("{:.0} %", 100.0 * run.restored)),
            ("rows computed per needed", |run| format!("{:.3}", run.rows)),
            ("slots filled in used blocks", |run| format!("{:.1} %", 100.0 * run.kv_utilisation)),
            ("preemptions", |run| run.preemptions.to_string()),
            ("longest step, ms", |run| format!("{:.0}", run.longest_step * 1e3)),
        ];
        let mut text = format!("{}\n(p50 / p90 / p99)\n", self.on);
        for (name, cell) in rows {
            let cells = self.runs.iter().map(|run| format!(" {:>22}", cell(run)));
            text += &format!("  {name:29}{}\n", cells.collect::<String>());
        }
        text += &format!(
            "eight tabs, relative to one request at a time: {:.2} times the tokens\n",
            self.throughput_ratio_8_tabs
        );
        text += &format!(
            "short request during a long prompt: first token after {:.2} times alone + one step\n",
            self.ttft_p99_ratio
        );
        text += "scheduling a step, on the CPU:\n";
        for HostStep { sequences, context, waiting, seconds } in &self.host_steps {
            let micros = seconds * 1e6;
            text += &format!(
                "  {sequences:2} sequences of {context:6} tokens, {waiting:2} waiting: {micros:4.0} µs\n"
            );
        }
        text
    }
}

fn share(rate: f64, share: f64) -> String {
    format!("{rate:.2} ({:.0} %)", 100.0 * share)
}

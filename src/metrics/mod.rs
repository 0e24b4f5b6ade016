//! Metrics of the serving core, with vLLM's names.

mod histogram;
mod hit_rate;
mod prometheus;
mod spec_decode;
mod times;

pub use self::{
    histogram::Histogram, hit_rate::HitRate, spec_decode::SpecDecode, times::RequestTimes,
};

use std::{collections::BTreeMap, time::Duration};

use serde::{Serialize, Serializer};

/// A snapshot of an engine's state, and its counters since the start. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// Requests that hold KV blocks and run.
    pub num_requests_running: usize,
    /// Requests that wait to be admitted, for the first time or after a preemption.
    pub num_requests_waiting: usize,
    /// Fraction of KV blocks in use, 0 to 1.
    pub kv_cache_usage_perc: f64,
    /// Fraction of the slots in used blocks that hold a token, 0 to 1; 0 if no block is in use.
    pub kv_block_utilisation: f64,
    /// Tokens looked up in the prefix cache.
    pub prefix_cache_queries: u64,
    /// Tokens found in the prefix cache.
    pub prefix_cache_hits: u64,
    /// Hit rate over the last 1000 requests.
    pub prefix_cache_hit_rate: HitRate,
    /// Tokens looked up when a preempted request was resumed; not in the counts above.
    pub preempted_queries: u64,
    /// Tokens found then.
    pub preempted_hits: u64,
    /// Tokens in both counts of found tokens that came from host memory.
    pub restored_tokens: u64,
    /// Tokens of prompts whose keys and values were read from the site's storage, into host memory.
    pub stored_tokens: u64,
    /// Fraction of host memory's blocks that hold something, 0 to 1; 0 without host memory.
    pub host_cache_usage_perc: f64,
    /// Number of preemptions: a request lost its blocks and is recomputed.
    pub num_preemptions: u64,
    /// Prompt tokens that were computed or found in the cache.
    pub prompt_tokens: u64,
    /// Tokens sampled and accepted.
    pub generation_tokens: u64,
    /// Counters of speculative decoding.
    #[serde(flatten)]
    pub spec_decode: SpecDecode,
    /// Estimated time saved by speculative decoding, from the duration of steps without drafts.
    pub spec_decode_seconds_saved: f64,
    /// Finished requests by reason.
    pub request_success: RequestSuccess,
    /// Number of steps run.
    pub steps: u64,
    /// Rows per step.
    pub iteration_tokens_total: Histogram,
    /// From one step's result to the next, or from submission if the executor was idle.
    pub step_time_seconds: Histogram,
    /// From arrival to the first token.
    pub time_to_first_token_seconds: Histogram,
    /// From each token to the next.
    pub inter_token_latency_seconds: Histogram,
    /// From the first token to the last, divided by the tokens after the first.
    pub request_time_per_output_token_seconds: Histogram,
    /// From arrival to the end.
    pub e2e_request_latency_seconds: Histogram,
    /// From arrival to the first admission.
    pub request_queue_time_seconds: Histogram,
    /// From admission to the first token.
    pub request_prefill_time_seconds: Histogram,
    /// From the first token to the last.
    pub request_decode_time_seconds: Histogram,
    /// From admission to the last token.
    pub request_inference_time_seconds: Histogram,
    /// Metrics per tab, by its id.
    #[serde(serialize_with = "by_name")]
    pub tabs: BTreeMap<u64, TabMetrics>,
}

/// Finished requests by reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RequestSuccess {
    /// An end token or a stop string.
    pub stop: u64,
    /// The token limit or the context length.
    pub length: u64,
    /// A repeated pattern, see `repetition_detection`.
    pub repetition: u64,
    /// Cancelled by the caller.
    pub abort: u64,
    pub error: u64,
}

/// The metrics of one tab.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TabMetrics {
    /// Running requests.
    pub running: usize,
    /// Waiting requests.
    pub waiting: usize,
    /// Block table entries of its requests; a shared block counts once per request.
    pub kv_blocks: usize,
    /// Tokens of its prompts that were computed or found in the cache.
    pub prompt_tokens: u64,
    /// Its tokens that were looked up in the prefix cache.
    pub prefix_cache_queries: u64,
    /// Number of them that were found.
    pub cached_tokens: u64,
    /// Of the found tokens, after preemptions too, those that came from host memory.
    pub restored_tokens: u64,
    /// Tokens of its prompts whose keys and values were read from the site's storage.
    pub stored_tokens: u64,
    /// Tokens sampled and accepted.
    pub generation_tokens: u64,
    /// Counters of speculative decoding.
    #[serde(flatten)]
    pub spec_decode: SpecDecode,
}

/// Why a request finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishedReason {
    Stop,
    Length,
    Repetition,
    Abort,
    Error,
}

impl Metrics {
    /// A tab's request looked up `queries` tokens in the prefix cache and found `hits` of them; `again` if
    /// it had been preempted.
    pub fn looked_up(&mut self, tab: u64, queries: usize, hits: usize, again: bool) {
        let (queries, hits) = (queries as u64, hits as u64);
        if again {
            self.preempted_queries += queries;
            self.preempted_hits += hits;
        } else {
            self.prefix_cache_queries += queries;
            self.prefix_cache_hits += hits;
            self.prefix_cache_hit_rate.observe(1, queries as usize, hits as usize);
            let tab = self.tab(tab);
            tab.prefix_cache_queries += queries;
            tab.cached_tokens += hits;
        }
    }

    /// Of what a tab's request found in the prefix cache, `tokens` tokens came from host memory.
    pub fn restored(&mut self, tab: u64, tokens: usize) {
        self.restored_tokens += tokens as u64;
        self.tab(tab).restored_tokens += tokens as u64;
    }

    /// Of a tab's prompt, `tokens` tokens were read from storage.
    pub fn stored(&mut self, tab: u64, tokens: usize) {
        self.stored_tokens += tokens as u64;
        self.tab(tab).stored_tokens += tokens as u64;
    }

    /// The prefill of a tab's prompt of `tokens` tokens is complete.
    pub fn prefilled(&mut self, tab: u64, tokens: usize) {
        self.prompt_tokens += tokens as u64;
        self.tab(tab).prompt_tokens += tokens as u64;
    }

    /// A token was generated for a tab.
    pub fn generated(&mut self, tab: u64) {
        self.generation_tokens += 1;
        self.tab(tab).generation_tokens += 1;
    }

    /// `drafted` tokens of a tab's sequence were verified, and the first `accepted` were accepted.
    pub fn verified(&mut self, tab: u64, drafted: usize, accepted: usize) {
        self.spec_decode.observe(drafted, accepted);
        self.tab(tab).spec_decode.observe(drafted, accepted);
    }

    /// The executor ran a step with `rows` rows.
    pub fn stepped(&mut self, rows: usize, took: Duration) {
        self.steps += 1;
        self.iteration_tokens_total.observe(rows as f64);
        self.step_time_seconds.observe(took.as_secs_f64());
    }

    /// Removes the metrics of other tabs: what is counted by tab becomes the sum over these tabs, and what is
    /// not, such as steps and all times, is left out. How busy and how full the engine is stays.
    pub fn restrict_to(&mut self, own: impl Fn(u64) -> bool) {
        let mut tabs = std::mem::take(&mut self.tabs);
        tabs.retain(|tab, _| own(*tab));
        let sum = |count: fn(&TabMetrics) -> u64| tabs.values().map(count).sum::<u64>();
        let (queries, hits) = (sum(|tab| tab.prefix_cache_queries), sum(|tab| tab.cached_tokens));
        let mut prefix_cache_hit_rate = HitRate::default();
        prefix_cache_hit_rate.observe(1, queries as usize, hits as usize);
        let mut spec_decode = SpecDecode::default();
        tabs.values().for_each(|tab| spec_decode.add(&tab.spec_decode));
        *self = Metrics {
            num_requests_running: self.num_requests_running,
            num_requests_waiting: self.num_requests_waiting,
            kv_cache_usage_perc: self.kv_cache_usage_perc,
            kv_block_utilisation: self.kv_block_utilisation,
            host_cache_usage_perc: self.host_cache_usage_perc,
            prefix_cache_queries: queries,
            prefix_cache_hits: hits,
            prefix_cache_hit_rate,
            prompt_tokens: sum(|tab| tab.prompt_tokens),
            generation_tokens: sum(|tab| tab.generation_tokens),
            restored_tokens: sum(|tab| tab.restored_tokens),
            stored_tokens: sum(|tab| tab.stored_tokens),
            spec_decode,
            tabs,
            ..Metrics::default()
        };
    }

    /// The metrics of a tab.
    pub fn tab(&mut self, tab: u64) -> &mut TabMetrics {
        self.tabs.entry(tab).or_default()
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        let [to_first_token, per_token, per_request, per_step, rows] =
            [TO_FIRST_TOKEN, PER_TOKEN, PER_REQUEST, PER_STEP, ROWS].map(Histogram::new);
        Metrics {
            num_requests_running: 0,
            num_requests_waiting: 0,
            kv_cache_usage_perc: 0.0,
            kv_block_utilisation: 0.0,
            prefix_cache_queries: 0,
            prefix_cache_hits: 0,
            prefix_cache_hit_rate: HitRate::default(),
            preempted_queries: 0,
            preempted_hits: 0,
            restored_tokens: 0,
            stored_tokens: 0,
            host_cache_usage_perc: 0.0,
            num_preemptions: 0,
            prompt_tokens: 0,
            generation_tokens: 0,
            spec_decode: SpecDecode::default(),
            spec_decode_seconds_saved: 0.0,
            request_success: RequestSuccess::default(),
            steps: 0,
            iteration_tokens_total: rows,
            step_time_seconds: per_step,
            time_to_first_token_seconds: to_first_token,
            inter_token_latency_seconds: per_token.clone(),
            request_time_per_output_token_seconds: per_token,
            e2e_request_latency_seconds: per_request.clone(),
            request_queue_time_seconds: per_request.clone(),
            request_prefill_time_seconds: per_request.clone(),
            request_decode_time_seconds: per_request.clone(),
            request_inference_time_seconds: per_request,
            tabs: BTreeMap::new(),
        }
    }
}

impl RequestSuccess {
    /// Counts a finished request.
    pub fn count(&mut self, reason: FinishedReason) {
        *match reason {
            FinishedReason::Stop => &mut self.stop,
            FinishedReason::Length => &mut self.length,
            FinishedReason::Repetition => &mut self.repetition,
            FinishedReason::Abort => &mut self.abort,
            FinishedReason::Error => &mut self.error,
        } += 1;
    }
}

// Bucket bounds are vLLM's, so that its dashboards work.
const ROWS: &[f64] =
    &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
const TO_FIRST_TOKEN: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const PER_TOKEN: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const PER_REQUEST: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
/// vLLM has no such metric. A GPU may be reset if one step takes two seconds.
const PER_STEP: &[f64] =
    &[0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.0];

/// Serialises ids as strings, as JSON keys must be.
fn by_name<S: Serializer>(
    tabs: &BTreeMap<u64, TabMetrics>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(tabs.iter().map(|(id, tab)| (id.to_string(), tab)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_of_preempted_requests_are_counted_separately() {
        let mut metrics = Metrics::default();
        metrics.looked_up(3, 100, 32, false);
        metrics.looked_up(3, 110, 96, true);
        assert_eq!((metrics.prefix_cache_queries, metrics.prefix_cache_hits), (100, 32));
        assert_eq!((metrics.preempted_queries, metrics.preempted_hits), (110, 96));
        let tab = &metrics.tabs[&3];
        assert_eq!((tab.prefix_cache_queries, tab.cached_tokens), (100, 32));
    }

    #[test]
    fn tabs_add_up_to_the_whole() {
        let mut metrics = Metrics::default();
        for (tab, prompt, answer) in [(1, 10, 2), (2, 30, 1), (1, 5, 4)] {
            metrics.prefilled(tab, prompt);
            (0..answer).for_each(|_| metrics.generated(tab));
        }
        assert_eq!((metrics.prompt_tokens, metrics.generation_tokens), (45, 7));
        assert_eq!((metrics.tabs[&1].prompt_tokens, metrics.tabs[&1].generation_tokens), (15, 6));
        assert_eq!((metrics.tabs[&2].prompt_tokens, metrics.tabs[&2].generation_tokens), (30, 1));
    }

    #[test]
    fn of_other_tabs_nothing_is_left_but_how_busy_the_engine_is() {
        let mut metrics = Metrics { num_requests_running: 2, ..Metrics::default() };
        for tab in [1, 2] {
            metrics.looked_up(tab, 100, 32, false);
            metrics.prefilled(tab, 100);
            metrics.generated(tab);
            metrics.verified(tab, 4, 2);
        }
        let before = metrics.clone();
        metrics.looked_up(2, 50, 48, true);
        metrics.restored(2, 16);
        metrics.stepped(64, Duration::from_millis(90));
        metrics.time_to_first_token_seconds.observe(0.3);
        metrics.request_success.count(FinishedReason::Stop);
        metrics.num_preemptions += 1;
        let own = |mut metrics: Metrics| {
            metrics.restrict_to(|tab| tab == 1);
            serde_json::to_value(metrics).unwrap()
        };
        let (before, after) = (own(before), own(metrics));
        assert_eq!(before, after);
        let told = |name: &str| after[name].as_u64().unwrap();
        let names = [
            "num_requests_running",
            "prompt_tokens",
            "generation_tokens",
            "spec_decode_num_draft_tokens",
        ];
        assert_eq!(names.map(told), [2, 100, 1, 4]);
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [ROWS, TO_FIRST_TOKEN, PER_TOKEN, PER_REQUEST, PER_STEP] {
            assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        }
    }

    #[test]
    fn tabs_are_written_by_name() {
        let mut metrics = Metrics::default();
        metrics.generated(7);
        let json = serde_json::to_value(&metrics).unwrap();
        assert_eq!(json["tabs"]["7"]["generation_tokens"], 1);
        assert_eq!(json["time_to_first_token_seconds"]["count"], 0);
    }
}

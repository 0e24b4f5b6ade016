//! What the serving core counts, under the names that vLLM gives it.

use std::collections::VecDeque;

use serde::Serialize;

/// The state of an engine at one moment, and its counters since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Requests that hold KV blocks and are being computed.
    pub num_requests_running: usize,
    /// Requests that wait to be admitted, for the first time or after a preemption.
    pub num_requests_waiting: usize,
    /// The share of KV blocks that are held, from 0 to 1.
    pub kv_cache_usage_perc: f64,
    /// How often a request gave up its blocks, to be computed again.
    pub num_preemptions: u64,
    /// Tokens of the prompts that have been computed.
    pub prompt_tokens: u64,
    /// Tokens sampled and accepted.
    pub generation_tokens: u64,
    /// Requests that ended, by reason.
    pub request_success: RequestSuccess,
}

/// Ended requests by reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RequestSuccess {
    /// An end token or a stop string.
    pub stop: u64,
    /// The token limit or the context length.
    pub length: u64,
    /// Cancelled by the caller.
    pub abort: u64,
    pub error: u64,
}

/// How much of the latest requests' prompts was found in the prefix cache.
#[derive(Clone, Debug, PartialEq)]
pub struct HitRate {
    most: usize,
    /// Requests, tokens looked up and tokens found; the sums of `latest`.
    sums: [usize; 3],
    latest: VecDeque<[usize; 3]>,
}

impl HitRate {
    /// The rate over about the last `most` requests.
    pub fn new(most: usize) -> HitRate {
        HitRate { most, sums: [0; 3], latest: VecDeque::new() }
    }

    /// Takes in `requests` that looked up `queries` tokens and found `hits` of them.
    pub fn observe(&mut self, requests: usize, queries: usize, hits: usize) {
        if requests == 0 {
            return;
        }
        let now = [requests, queries, hits];
        self.latest.push_back(now);
        self.sums = std::array::from_fn(|i| self.sums[i] + now[i]);
        while self.sums[0] > self.most
            && self.latest.len() > 1
            && let Some(old) = self.latest.pop_front()
        {
            self.sums = std::array::from_fn(|i| self.sums[i] - old[i]);
        }
    }

    /// The share of tokens that were found, from 0 to 1; none if none were looked up.
    pub fn rate(&self) -> Option<f64> {
        let [_, queries, hits] = self.sums;
        (queries > 0).then(|| hits as f64 / queries as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hit_rate_is_that_of_the_latest_requests() {
        let mut hits = HitRate::new(5);
        assert_eq!(hits.rate(), None, "no lookups are not the same as no hits");
        for (requests, queries, found, rate) in [
            (1, 20, 0, 0.0),
            (5, 20, 9, 0.45),
            (1, 20, 9, 0.45),
            (0, 0, 0, 0.45),
            (4, 80, 16, 0.25),
            (0, 0, 0, 0.25),
            (1, 10, 2, 0.2),
            (11, 20, 10, 0.5),
        ] {
            hits.observe(requests, queries, found);
            assert_eq!(hits.rate(), Some(rate), "after {requests} requests of {queries} tokens");
        }
    }
}

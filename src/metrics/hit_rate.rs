//! The recent hit rate of the prefix cache.

use std::collections::VecDeque;

use serde::{Serialize, Serializer};

/// The prefix cache's hit rate over the latest requests.
#[derive(Clone, Debug, PartialEq)]
pub struct HitRate {
    most: usize,
    /// Requests, tokens looked up and tokens found; the sums of `latest`.
    sums: [usize; 3],
    latest: VecDeque<[usize; 3]>,
}

impl Default for HitRate {
    fn default() -> HitRate {
        HitRate::new(1000)
    }
}

/// Serialised as the rate, or null.
impl Serialize for HitRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rate().serialize(serializer)
    }
}

impl HitRate {
    /// The rate over about the last `most` requests.
    pub fn new(most: usize) -> HitRate {
        HitRate { most, sums: [0; 3], latest: VecDeque::new() }
    }

    /// Counts `requests` that looked up `queries` tokens and found `hits` of them.
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

    /// The fraction of tokens that were found, 0 to 1; `None` if none were looked up.
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

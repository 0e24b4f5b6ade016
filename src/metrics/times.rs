//! Times of a request's events, and the latencies observed from them.

use std::time::Duration;

use super::{FinishedReason, Metrics};

/// Times of one request's events on the engine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimes {
    pub arrival: Duration,
    /// The first admission; a preemption does not change it.
    pub admitted: Option<Duration>,
    pub first_token: Option<Duration>,
    pub last_token: Option<Duration>,
    /// Tokens generated so far.
    pub tokens: u64,
}

impl RequestTimes {
    /// The times of a request that is queued now.
    pub fn new(now: Duration) -> RequestTimes {
        RequestTimes {
            arrival: now,
            admitted: None,
            first_token: None,
            last_token: None,
            tokens: 0,
        }
    }

    /// The request was admitted, for the first time or again.
    pub fn admitted(&mut self, now: Duration) {
        self.admitted.get_or_insert(now);
    }

    /// A token was generated.
    pub fn token(&mut self, now: Duration, metrics: &mut Metrics) {
        match self.last_token {
            None => metrics.time_to_first_token_seconds.observe(seconds(self.arrival, now)),
            Some(last) => metrics.inter_token_latency_seconds.observe(seconds(last, now)),
        }
        self.first_token.get_or_insert(now);
        self.last_token = Some(now);
        self.tokens += 1;
    }

    /// The request finished. Latencies are observed only for complete answers.
    pub fn finished(&self, now: Duration, reason: FinishedReason, metrics: &mut Metrics) {
        metrics.request_success.count(reason);
        if !matches!(
            reason,
            FinishedReason::Stop | FinishedReason::Length | FinishedReason::Repetition
        ) {
            return;
        }
        metrics.e2e_request_latency_seconds.observe(seconds(self.arrival, now));
        let Some(admitted) = self.admitted else { return };
        metrics.request_queue_time_seconds.observe(seconds(self.arrival, admitted));
        let (Some(first), Some(last)) = (self.first_token, self.last_token) else { return };
        let decode = seconds(first, last);
        metrics.request_prefill_time_seconds.observe(seconds(admitted, first));
        metrics.request_decode_time_seconds.observe(decode);
        metrics.request_inference_time_seconds.observe(seconds(admitted, last));
        if self.tokens > 1 {
            let per_token = decode / (self.tokens - 1) as f64;
            metrics.request_time_per_output_token_seconds.observe(per_token);
        }
    }
}

fn seconds(from: Duration, to: Duration) -> f64 {
    to.saturating_sub(from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Histogram;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn observed(histogram: &Histogram) -> (u64, f64) {
        (histogram.count, (histogram.sum * 1e6).round() / 1e6)
    }

    #[test]
    fn each_interval_is_observed_once() {
        let mut metrics = Metrics::default();
        let mut times = RequestTimes::new(ms(1000));
        times.admitted(ms(1250));
        for now in [2000, 2100, 2400] {
            times.token(ms(now), &mut metrics);
        }
        times.admitted(ms(2500)); // after a preemption
        times.token(ms(3000), &mut metrics);
        times.finished(ms(3001), FinishedReason::Length, &mut metrics);

        assert_eq!(observed(&metrics.time_to_first_token_seconds), (1, 1.0));
        assert_eq!(observed(&metrics.inter_token_latency_seconds), (3, 1.0));
        assert_eq!(observed(&metrics.e2e_request_latency_seconds), (1, 2.001));
        assert_eq!(observed(&metrics.request_queue_time_seconds), (1, 0.25));
        assert_eq!(observed(&metrics.request_prefill_time_seconds), (1, 0.75));
        assert_eq!(observed(&metrics.request_decode_time_seconds), (1, 1.0));
        assert_eq!(observed(&metrics.request_inference_time_seconds), (1, 1.75));
        assert_eq!(observed(&metrics.request_time_per_output_token_seconds), (1, 0.333333));
        assert_eq!(metrics.request_success.length, 1);
    }

    #[test]
    fn requests_without_a_complete_answer_are_only_counted() {
        for reason in [FinishedReason::Abort, FinishedReason::Error] {
            let mut metrics = Metrics::default();
            let mut times = RequestTimes::new(ms(0));
            times.admitted(ms(5));
            times.finished(ms(10), reason, &mut metrics);
            let mut expected = Metrics::default();
            expected.request_success.count(reason);
            assert_eq!(metrics, expected);
        }
    }

    #[test]
    fn an_answer_of_one_token_has_no_time_per_token() {
        let mut metrics = Metrics::default();
        let mut times = RequestTimes::new(ms(0));
        times.admitted(ms(0));
        times.token(ms(100), &mut metrics);
        times.finished(ms(100), FinishedReason::Stop, &mut metrics);
        assert_eq!(metrics.request_time_per_output_token_seconds.count, 0);
        assert_eq!(observed(&metrics.request_inference_time_seconds), (1, 0.1));
    }
}

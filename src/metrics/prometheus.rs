//! Metrics in Prometheus' text exposition format, version 0.0.4.
//!
//! Names are vLLM's if it has the metric; counters end in `_total`.

use std::fmt::Display;

use super::{Histogram, Metrics, TabMetrics};

impl Metrics {
    /// The metrics in Prometheus' text format. As in vLLM, every sample has a label `model_name`.
    pub fn to_prometheus(&self, model: &str) -> String {
        let mut page = Page { text: String::new(), model: escape(model) };
        self.gauges(&mut page);
        self.counters(&mut page);
        self.histograms(&mut page);
        if !self.tabs.is_empty() {
            self.tabs(&mut page);
        }
        page.text
    }

    fn gauges(&self, page: &mut Page) {
        let (running, waiting) = (self.num_requests_running, self.num_requests_waiting);
        let gauges = [
            ("vllm:num_requests_running", "Requests running.", running as f64),
            ("vllm:num_requests_waiting", "Requests waiting to be admitted.", waiting as f64),
            ("vllm:kv_cache_usage_perc", "Fraction of KV blocks in use.", self.kv_cache_usage_perc),
            (
                "tabloom:kv_block_utilisation",
                "Fraction of the slots in used KV blocks that hold a token.",
                self.kv_block_utilisation,
            ),
            (
                "tabloom:host_cache_usage_perc",
                "Fraction of host memory's blocks that hold something.",
                self.host_cache_usage_perc,
            ),
        ];
        for (name, help, value) in gauges {
            page.family(name, "gauge", help);
            page.sample(name, None, value);
        }
    }

    fn counters(&self, page: &mut Page) {
        let drafts = &self.spec_decode;
        let counters = [
            (
                "vllm:prefix_cache_queries_total",
                "Tokens looked up in the prefix cache.",
                self.prefix_cache_queries,
            ),
            (
                "vllm:prefix_cache_hits_total",
                "Tokens found in the prefix cache.",
                self.prefix_cache_hits,
            ),
            (
                "tabloom:preempted_queries_total",
                "Tokens looked up in the prefix cache after a preemption.",
                self.preempted_queries,
            ),
            (
                "tabloom:preempted_hits_total",
                "Tokens found in the prefix cache after a preemption.",
                self.preempted_hits,
            ),
            (
                "tabloom:restored_tokens_total",
                "Tokens of the prefix cache that came from host memory.",
                self.restored_tokens,
            ),
            (
                "tabloom:stored_tokens_total",
                "Tokens of prompts that were read from storage.",
                self.stored_tokens,
            ),
            ("vllm:num_preemptions_total", "Preemptions.", self.num_preemptions),
            ("vllm:prompt_tokens_total", "Prompt tokens, computed or cached.", self.prompt_tokens),
            ("vllm:generation_tokens_total", "Tokens generated.", self.generation_tokens),
            ("tabloom:steps_total", "Steps run.", self.steps),
            (
                "vllm:spec_decode_num_drafts_total",
                "Sequence steps with draft tokens.",
                drafts.spec_decode_num_drafts,
            ),
            (
                "vllm:spec_decode_num_draft_tokens_total",
                "Draft tokens.",
                drafts.spec_decode_num_draft_tokens,
            ),
            (
                "vllm:spec_decode_num_accepted_tokens_total",
                "Accepted draft tokens.",
                drafts.spec_decode_num_accepted_tokens,
            ),
        ];
        for (name, help, value) in counters {
            page.family(name, "counter", help);
            page.sample(name, None, value);
        }
        let name = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
        page.family(name, "counter", "Accepted draft tokens, by position in the draft.");
        for (at, count) in drafts.spec_decode_num_accepted_tokens_per_pos.iter().enumerate() {
            page.sample(name, Some(("position", &at.to_string())), count);
        }
        let name = "tabloom:spec_decode_seconds_saved";
        page.family(name, "gauge", "Estimated time saved by speculative decoding.");
        page.sample(name, None, self.spec_decode_seconds_saved);
        let ended = &self.request_success;
        let reasons = [
            ("stop", ended.stop),
            ("length", ended.length),
            ("repetition", ended.repetition),
            ("abort", ended.abort),
            ("error", ended.error),
        ];
        page.family("vllm:request_success_total", "counter", "Finished requests, by reason.");
        for (reason, count) in reasons {
            page.sample("vllm:request_success_total", Some(("finished_reason", reason)), count);
        }
    }

    fn histograms(&self, page: &mut Page) {
        let histograms = [
            ("vllm:iteration_tokens_total", "Rows of a step.", &self.iteration_tokens_total),
            ("tabloom:step_time_seconds", "Time that a step took.", &self.step_time_seconds),
            (
                "vllm:time_to_first_token_seconds",
                "Time from arrival to the first token.",
                &self.time_to_first_token_seconds,
            ),
            (
                "vllm:inter_token_latency_seconds",
                "Time from one token to the next.",
                &self.inter_token_latency_seconds,
            ),
            (
                "vllm:request_time_per_output_token_seconds",
                "A request's mean time per token after the first.",
                &self.request_time_per_output_token_seconds,
            ),
            (
                "vllm:e2e_request_latency_seconds",
                "Time from arrival to the end.",
                &self.e2e_request_latency_seconds,
            ),
            (
                "vllm:request_queue_time_seconds",
                "Time from arrival to the first admission.",
                &self.request_queue_time_seconds,
            ),
            (
                "vllm:request_prefill_time_seconds",
                "Time from admission to the first token.",
                &self.request_prefill_time_seconds,
            ),
            (
                "vllm:request_decode_time_seconds",
                "Time from the first token to the last.",
                &self.request_decode_time_seconds,
            ),
            (
                "vllm:request_inference_time_seconds",
                "Time from admission to the last token.",
                &self.request_inference_time_seconds,
            ),
        ];
        for (name, help, histogram) in histograms {
            page.family(name, "histogram", help);
            page.histogram(name, histogram);
        }
    }

    fn tabs(&self, page: &mut Page) {
        type Value = fn(&TabMetrics) -> u64;
        let gauges: [(_, _, Value); 3] = [
            ("running", "Requests running", |tab| tab.running as u64),
            ("waiting", "Requests waiting", |tab| tab.waiting as u64),
            ("kv_blocks", "KV blocks in block tables", |tab| tab.kv_blocks as u64),
        ];
        let counters: [(_, _, Value); 8] = [
            ("prompt_tokens_total", "Prompt tokens", |tab| tab.prompt_tokens),
            ("prefix_cache_queries_total", "Tokens looked up in the prefix cache", |tab| {
                tab.prefix_cache_queries
            }),
            ("cached_tokens_total", "Tokens found in the prefix cache", |tab| tab.cached_tokens),
            ("restored_tokens_total", "Tokens found in host memory", |tab| tab.restored_tokens),
            ("stored_tokens_total", "Tokens read from storage", |tab| tab.stored_tokens),
            ("generation_tokens_total", "Tokens generated", |tab| tab.generation_tokens),
            ("draft_tokens_total", "Tokens drafted", |tab| {
                tab.spec_decode.spec_decode_num_draft_tokens
            }),
            ("accepted_tokens_total", "Accepted draft tokens", |tab| {
                tab.spec_decode.spec_decode_num_accepted_tokens
            }),
        ];
        for (kind, families) in [("gauge", &gauges[..]), ("counter", &counters[..])] {
            for (name, help, value) in families {
                let name = format!("tabloom:tab_{name}");
                page.family(&name, kind, &format!("{help}, by tab."));
                for (id, tab) in &self.tabs {
                    page.sample(&name, Some(("tab", &id.to_string())), value(tab));
                }
            }
        }
    }
}

/// The text that is being written.
struct Page {
    text: String,
    /// Escaped value of the label `model_name`.
    model: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// `label` is a second label, whose value needs no escaping.
    fn sample(&mut self, name: &str, label: Option<(&str, &str)>, value: impl Display) {
        let label = label.map(|(name, value)| format!(",{name}=\"{value}\"")).unwrap_or_default();
        self.text += &format!("{name}{{model_name=\"{}\"{label}}} {value}\n", self.model);
    }

    fn histogram(&mut self, name: &str, histogram: &Histogram) {
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.cumulative() {
            let bound = if bound.is_finite() { format!("{bound:?}") } else { "+Inf".into() };
            self.sample(&bucket, Some(("le", &bound)), count);
        }
        self.sample(&format!("{name}_sum"), None, histogram.sum);
        self.sample(&format!("{name}_count"), None, histogram.count);
    }
}

/// Escapes a label's value.
fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        time::Duration,
    };

    use nom_openmetrics::{Family, MetricDescriptor, parser};

    use super::*;
    use crate::metrics::{FinishedReason, RequestTimes};

    const MODEL: &str = "a \"quoted\" \\ name\nin two lines";

    const HISTOGRAMS: usize = 10;
    const PER_PLACE: &str = "vllm:spec_decode_num_accepted_tokens_per_pos_total";

    /// Metrics with different numbers everywhere, so that none is confused.
    fn lived() -> Metrics {
        let mut metrics = Metrics {
            num_requests_running: 3,
            num_requests_waiting: 4,
            kv_cache_usage_perc: 0.625,
            kv_block_utilisation: 0.9375,
            host_cache_usage_perc: 0.5,
            num_preemptions: 5,
            ..Metrics::default()
        };
        metrics.looked_up(1, 100, 48, false);
        metrics.looked_up(2, 90, 16, true);
        metrics.restored(2, 32);
        metrics.stored(2, 16);
        metrics.prefilled(1, 100);
        metrics.verified(2, 5, 3);
        metrics.verified(2, 2, 1);
        metrics.spec_decode_seconds_saved = 0.25;
        let reasons = [FinishedReason::Stop, FinishedReason::Length, FinishedReason::Abort];
        for (at, reason) in reasons.into_iter().enumerate() {
            let ms = |count: u64| Duration::from_millis(count + 7 * at as u64);
            let mut times = RequestTimes::new(ms(0));
            times.admitted(ms(400));
            for now in [700, 730, 20_000] {
                times.token(ms(now), &mut metrics);
                metrics.generated(2);
                metrics.stepped(9 + at, ms(3));
            }
            times.finished(ms(21_000), reason, &mut metrics);
            (0..at).for_each(|_| metrics.request_success.count(reason));
        }
        *metrics.tab(2) =
            TabMetrics { running: 7, waiting: 8, kv_blocks: 11, ..metrics.tabs[&2].clone() };
        metrics
    }

    /// The metric families of a page by name.
    fn parse(page: &str) -> BTreeMap<&str, Family<'_>> {
        let (rest, families) = parser::prometheus(page).expect("a valid page");
        assert_eq!(rest, "");
        let count = families.len();
        let named = families.into_iter().map(|family| (family.descriptors[0].metric(), family));
        let named = BTreeMap::from_iter(named);
        assert_eq!(named.len(), count, "a family is described twice");
        named
    }

    /// The value of the only sample with this name and, if given, this second label.
    fn value(family: &Family, name: &str, label: Option<(&str, &str)>) -> f64 {
        let expected = [("model_name", MODEL)].into_iter().chain(label);
        let found: Vec<f64> = family
            .samples
            .iter()
            .filter(|sample| {
                let labels = sample.labels().iter();
                let labels = labels.map(|label| (label.name, label.value.as_str()));
                sample.name() == name && labels.eq(expected.clone())
            })
            .map(|sample| sample.number())
            .collect();
        let [value] = found[..] else { panic!("{name} {label:?}: {found:?}") };
        value
    }

    fn check_kind(family: &Family, kind: &str) {
        let name = family.descriptors[0].metric();
        let [MetricDescriptor::Help { help, .. }, MetricDescriptor::Type { metric, r#type }] =
            &family.descriptors[..]
        else {
            panic!("{:?}", family.descriptors)
        };
        assert_eq!((*metric, r#type.to_string().to_lowercase().as_str()), (name, kind));
        assert!(help.ends_with('.'), "{name}: {help}");
    }

    #[test]
    fn a_parser_reads_back_gauges_and_counters() {
        let page = lived().to_prometheus(MODEL);
        let families = parse(&page);
        let gauges = [
            ("vllm:num_requests_running", None, 3.0),
            ("vllm:num_requests_waiting", None, 4.0),
            ("vllm:kv_cache_usage_perc", None, 0.625),
            ("tabloom:kv_block_utilisation", None, 0.9375),
            ("tabloom:host_cache_usage_perc", None, 0.5),
            ("tabloom:spec_decode_seconds_saved", None, 0.25),
            ("tabloom:tab_running", Some(("tab", "2")), 7.0),
            ("tabloom:tab_waiting", Some(("tab", "2")), 8.0),
            ("tabloom:tab_kv_blocks", Some(("tab", "2")), 11.0),
        ];
        let counters = [
            ("vllm:prefix_cache_queries_total", None, 100.0),
            ("vllm:prefix_cache_hits_total", None, 48.0),
            ("tabloom:preempted_queries_total", None, 90.0),
            ("tabloom:preempted_hits_total", None, 16.0),
            ("tabloom:restored_tokens_total", None, 32.0),
            ("tabloom:tab_restored_tokens_total", Some(("tab", "2")), 32.0),
            ("tabloom:stored_tokens_total", None, 16.0),
            ("tabloom:tab_stored_tokens_total", Some(("tab", "2")), 16.0),
            ("vllm:num_preemptions_total", None, 5.0),
            ("vllm:prompt_tokens_total", None, 100.0),
            ("vllm:generation_tokens_total", None, 9.0),
            ("tabloom:steps_total", None, 9.0),
            ("vllm:request_success_total", Some(("finished_reason", "stop")), 1.0),
            ("vllm:request_success_total", Some(("finished_reason", "length")), 2.0),
            ("vllm:request_success_total", Some(("finished_reason", "abort")), 3.0),
            ("vllm:request_success_total", Some(("finished_reason", "error")), 0.0),
            ("vllm:spec_decode_num_drafts_total", None, 2.0),
            ("vllm:spec_decode_num_draft_tokens_total", None, 7.0),
            ("vllm:spec_decode_num_accepted_tokens_total", None, 4.0),
            (PER_PLACE, Some(("position", "0")), 2.0),
            (PER_PLACE, Some(("position", "2")), 1.0),
            (PER_PLACE, Some(("position", "3")), 0.0),
            ("tabloom:tab_draft_tokens_total", Some(("tab", "2")), 7.0),
            ("tabloom:tab_accepted_tokens_total", Some(("tab", "2")), 4.0),
            ("tabloom:tab_prompt_tokens_total", Some(("tab", "1")), 100.0),
            ("tabloom:tab_prefix_cache_queries_total", Some(("tab", "1")), 100.0),
            ("tabloom:tab_cached_tokens_total", Some(("tab", "1")), 48.0),
            ("tabloom:tab_generation_tokens_total", Some(("tab", "2")), 9.0),
        ];
        for (name, label, expected) in gauges {
            check_kind(&families[name], "gauge");
            assert_eq!(value(&families[name], name, label), expected, "{name} {label:?}");
        }
        for (name, label, expected) in counters {
            check_kind(&families[name], "counter");
            assert_eq!(value(&families[name], name, label), expected, "{name} {label:?}");
        }
        let names = gauges.iter().chain(&counters).map(|(name, ..)| *name);
        let scalars = names.collect::<BTreeSet<_>>().len();
        assert_eq!(families.len(), scalars + HISTOGRAMS);
    }

    #[test]
    fn a_parser_reads_back_every_histogram() {
        let metrics = lived();
        let page = metrics.to_prometheus(MODEL);
        let families = parse(&page);
        let fields = serde_json::to_value(&metrics).unwrap();
        let fields = fields.as_object().unwrap();
        let histograms = fields.iter().filter(|(_, field)| field.get("bounds").is_some());
        let mut count = 0;
        for (field, expected) in histograms {
            let own = ["vllm", "tabloom"].map(|prefix| format!("{prefix}:{field}"));
            let name = own.iter().find(|name| families.contains_key(name.as_str()));
            let name = name.unwrap_or_else(|| panic!("{field} is missing")).as_str();
            let family = &families[name];
            check_kind(family, "histogram");
            let number = |value: &serde_json::Value| value.as_f64().unwrap();
            let mut total = 0.0;
            let bounds = expected["bounds"].as_array().unwrap().iter().map(number);
            let counts = expected["counts"].as_array().unwrap().iter().map(number);
            for (bound, count) in bounds.chain([f64::INFINITY]).zip(counts) {
                total += count;
                let le = if bound == f64::INFINITY { "+Inf".into() } else { format!("{bound:?}") };
                let found = value(family, &format!("{name}_bucket"), Some(("le", &le)));
                assert_eq!(found, total, "{name} up to {bound}");
            }
            assert!(total > 0.0, "{name} saw nothing");
            assert_eq!(value(family, &format!("{name}_count"), None), total);
            assert_eq!(value(family, &format!("{name}_sum"), None), number(&expected["sum"]));
            count += 1;
        }
        assert_eq!(count, HISTOGRAMS);
    }

    #[test]
    fn an_engine_without_tabs_has_a_valid_page() {
        let page = Metrics::default().to_prometheus("");
        assert!(!parse(&page).is_empty());
    }
}

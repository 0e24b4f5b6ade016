//! Generation defaults of a model: end-of-sequence ids and sampling parameters.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::json;
use crate::api::{SamplingParams, typed};
use crate::error::{Error, Result};
use crate::step::Sampling;

const FILE: &str = "generation_config.json";

/// Temperatures below this mean greedy decoding.
const MIN_TEMPERATURE: f32 = 1e-5;

/// The defaults of a model, from `generation_config.json` and `config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerationDefaults {
    /// End-of-sequence ids.
    pub eos_ids: Vec<u32>,
    /// 0 is greedy.
    pub temperature: f32,
    /// 0 keeps all.
    pub top_k: u32,
    /// 1 keeps all.
    pub top_p: f32,
    /// 0 keeps all.
    pub min_p: f32,
    /// 1 changes nothing.
    pub repetition_penalty: f32,
}

/// Defaults of models whose files say nothing of sampling: those of llama.cpp. Sampled from the whole
/// vocabulary at temperature 1, answers of small models are mostly noise.
const SILENT: GenerationDefaults = GenerationDefaults {
    eos_ids: Vec::new(),
    temperature: 0.8,
    top_k: 40,
    top_p: 0.95,
    min_p: 0.05,
    repetition_penalty: 1.0,
};

impl Default for GenerationDefaults {
    fn default() -> Self {
        GenerationDefaults {
            eos_ids: Vec::new(),
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
        }
    }
}

/// The fields used of these files.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    eos_token_id: Option<OneOrMany>,
    do_sample: Option<bool>,
    temperature: Option<f64>,
    top_k: Option<i64>,
    top_p: Option<f64>,
    min_p: Option<f64>,
    repetition_penalty: Option<f64>,
}

/// GGUF keys under `general.sampling.`, and the fields that they stand for.
const GGUF_KEYS: [(&str, &str); 5] = [
    ("temperature", "temp"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("repetition_penalty", "penalty_repeat"),
];

impl Fields {
    /// Whether the file says how tokens are sampled. Its other fields then have transformers' defaults.
    fn speaks(&self) -> bool {
        let Fields { do_sample, temperature, top_k, top_p, min_p, .. } = self;
        let numbers = [temperature, top_p, min_p].into_iter().any(Option::is_some);
        do_sample.is_some() || top_k.is_some() || numbers
    }

    /// The defaults in a file's fields, except for the ids.
    fn defaults(&self, file: &str) -> Result<GenerationDefaults> {
        let defaults = if self.speaks() { GenerationDefaults::default() } else { SILENT };
        let within =
            |field: &str, value: Option<f64>, default: f32, low: f64, high: f64| match value {
                Some(value) if !(low..=high).contains(&value) => {
                    Err(invalid(file, field, value, &format!("{low} to {high}")))
                }
                value => Ok(value.map_or(default, |value| value as f32)),
            };
        let temperature =
            within("temperature", self.temperature, defaults.temperature, 0.0, 100.0)?;
        let penalty = defaults.repetition_penalty;
        Ok(GenerationDefaults {
            temperature: if self.do_sample == Some(false) { 0.0 } else { temperature },
            top_k: match self.top_k {
                None | Some(-1) => defaults.top_k,
                Some(k) => u32::try_from(k).map_err(|_| invalid(file, "top_k", k, "a count"))?,
            },
            top_p: within("top_p", self.top_p, defaults.top_p, 0.0, 1.0)?,
            min_p: within("min_p", self.min_p, defaults.min_p, 0.0, 1.0)?,
            repetition_penalty: within(
                "repetition_penalty",
                self.repetition_penalty,
                penalty,
                0.01,
                100.0,
            )?,
            ..defaults
        })
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a token id or a list of token ids")]
enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

impl From<OneOrMany> for Vec<u32> {
    fn from(ids: OneOrMany) -> Self {
        match ids {
            OneOrMany::One(id) => vec![id],
            OneOrMany::Many(ids) => ids,
        }
    }
}

impl GenerationDefaults {
    /// Reads the bytes of `generation_config.json` and `config.json`; either may be missing.
    ///
    /// Sampling parameters come from the first only; end ids from the second if the first has none.
    pub fn from_files(generation_config: Option<&[u8]>, config: Option<&[u8]>) -> Result<Self> {
        let fields: Fields = match generation_config {
            Some(bytes) => json::parse(FILE, bytes)?,
            None => Fields::default(),
        };
        let defaults = fields.defaults(FILE)?;
        let mut eos = fields.eos_token_id;
        if let (None, Some(bytes)) = (&eos, config) {
            eos = json::parse::<Fields>("config.json", bytes)?.eos_token_id;
        }
        Ok(GenerationDefaults { eos_ids: eos.map(Vec::from).unwrap_or_default(), ..defaults })
    }

    /// Reads the sampling parameters in the metadata of a GGUF file.
    pub(super) fn from_gguf(file: &str, metadata: &Map<String, Value>) -> Result<Self> {
        let named = GGUF_KEYS.iter().filter_map(|(name, key)| {
            Some((name.to_string(), metadata.get(&format!("general.sampling.{key}"))?.clone()))
        });
        let named: Value = named.collect::<Map<_, _>>().into();
        let fields: Fields = typed(&named)
            .map_err(|misfit| json::misfitting(file, "GGUF file with sampling settings", misfit))?;
        fields.defaults(file)
    }

    /// Sampling parameters for a request; `seed` is used if the request has none.
    pub fn sampling(&self, asked: &SamplingParams, seed: u64) -> Sampling {
        let greedy = Sampling {
            seed: asked.seed.unwrap_or(seed),
            presence_penalty: asked.presence_penalty,
            frequency_penalty: asked.frequency_penalty,
            repetition_penalty: asked.repetition_penalty.unwrap_or(self.repetition_penalty),
            bias: !asked.logit_bias.is_empty(),
            logprobs: asked.logprobs,
            ..Sampling::GREEDY
        };
        let temperature = asked.temperature.unwrap_or(self.temperature);
        if temperature < MIN_TEMPERATURE {
            return greedy;
        }
        Sampling {
            temperature,
            top_k: asked.top_k.unwrap_or(self.top_k),
            top_p: asked.top_p.unwrap_or(self.top_p),
            min_p: asked.min_p.unwrap_or(self.min_p),
            ..greedy
        }
    }
}

fn invalid(file: &str, field: &str, found: impl ToString, expected: &str) -> Error {
    Error::InvalidConfig {
        file: file.into(),
        field: field.into(),
        found: found.to_string(),
        expected: expected.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(generation_config: &str, config: &str) -> Result<GenerationDefaults> {
        GenerationDefaults::from_files(Some(generation_config.as_bytes()), Some(config.as_bytes()))
    }

    #[test]
    fn end_ids_are_one_or_many_from_either_file() {
        let eos = |generation, config| read(generation, config).unwrap().eos_ids;
        assert_eq!(eos(r#"{"eos_token_id":[5,7]}"#, r#"{"eos_token_id":9}"#), [5, 7]);
        assert_eq!(eos(r#"{"eos_token_id":null}"#, r#"{"eos_token_id":9}"#), [9]);
        assert_eq!(eos("{}", "{}"), [0; 0]);
    }

    #[test]
    fn files_that_say_nothing_of_sampling_give_the_defaults_of_a_local_model() {
        let quiet =
            r#"{"_from_model_config":true,"eos_token_id":2,"use_cache":true,"do_sample":null}"#;
        let silent = GenerationDefaults {
            eos_ids: vec![2],
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repetition_penalty: 1.0,
        };
        assert_eq!(read(quiet, "{}").unwrap(), silent);
        let nothing = GenerationDefaults { eos_ids: vec![], ..silent.clone() };
        assert_eq!(GenerationDefaults::from_files(None, None).unwrap(), nothing);
        let penalty = GenerationDefaults { repetition_penalty: 1.1, ..nothing };
        assert_eq!(read(r#"{"repetition_penalty":1.1}"#, "{}").unwrap(), penalty);
        for said in [r#""do_sample":true"#, r#""temperature":1"#, r#""top_k":0"#, r#""top_p":1.0"#]
        {
            let found = read(&format!("{{{said}}}"), "{}").unwrap();
            assert_eq!(found, GenerationDefaults::default(), "{said}");
        }
    }

    #[test]
    fn a_request_s_temperature_leaves_the_other_defaults() {
        let defaults = read("{}", "{}").unwrap();
        let asked = SamplingParams { temperature: Some(1.0), ..Default::default() };
        let Sampling { temperature, top_k, top_p, min_p, .. } = defaults.sampling(&asked, 0);
        assert_eq!((temperature, top_k, top_p, min_p), (1.0, 40, 0.95, 0.05));
    }

    #[test]
    fn sampling_defaults_are_the_model_s() {
        let defaults =
            read(r#"{"do_sample":true,"temperature":0.6,"top_p":0.9,"top_k":20}"#, "{}").unwrap();
        let (temperature, top_k, top_p) = (0.6, 20, 0.9);
        assert_eq!(
            defaults,
            GenerationDefaults { temperature, top_k, top_p, ..Default::default() }
        );
        assert_eq!(
            read(r#"{"do_sample":false,"temperature":0.6}"#, "{}").unwrap().temperature,
            0.0
        );
    }

    #[test]
    fn a_request_overrides_the_model() {
        let defaults = GenerationDefaults { top_k: 20, ..Default::default() };
        let asked = SamplingParams { temperature: Some(0.5), seed: Some(3), ..Default::default() };
        let expected = Sampling { temperature: 0.5, top_k: 20, seed: 3, ..Sampling::GREEDY };
        assert_eq!(defaults.sampling(&asked, 9), expected);
        let greedy =
            SamplingParams { temperature: Some(0.0), top_p: Some(0.5), ..Default::default() };
        assert_eq!(defaults.sampling(&greedy, 9), Sampling { seed: 9, ..Sampling::GREEDY });
    }

    #[test]
    fn penalties_bias_and_log_probabilities_hold_at_any_temperature() {
        let defaults = read(r#"{"repetition_penalty":1.1,"do_sample":true}"#, "{}").unwrap();
        for temperature in [0.0, 0.7] {
            let mut asked = SamplingParams {
                temperature: Some(temperature),
                presence_penalty: 0.5,
                frequency_penalty: -0.5,
                logit_bias: vec![(1, 2.0)],
                logprobs: Some(3),
                ..Default::default()
            };
            let mut expected = Sampling {
                temperature,
                presence_penalty: 0.5,
                frequency_penalty: -0.5,
                repetition_penalty: 1.1,
                bias: true,
                logprobs: Some(3),
                ..Sampling::GREEDY
            };
            assert_eq!(defaults.sampling(&asked, 0), expected);
            (asked.repetition_penalty, expected.repetition_penalty) = (Some(1.0), 1.0);
            assert_eq!(defaults.sampling(&asked, 0), expected);
        }
    }

    #[test]
    fn gguf_files_have_names_of_their_own() {
        let read = |metadata: Value| {
            GenerationDefaults::from_gguf("model.gguf", metadata.as_object().unwrap())
        };
        let found = read(json!({
            "general.sampling.temp": 0.6, "general.sampling.top_k": 20, "general.sampling.top_p": 0.9,
            "general.sampling.min_p": 0.05, "general.sampling.penalty_repeat": 1.1, "top_k": 3,
        }));
        let expected = GenerationDefaults {
            temperature: 0.6,
            top_k: 20,
            top_p: 0.9,
            min_p: 0.05,
            repetition_penalty: 1.1,
            ..Default::default()
        };
        assert_eq!(found.unwrap(), expected);
        assert_eq!(read(json!({})).unwrap(), SILENT);
        let said = read(json!({ "general.sampling.temp": 1.0 })).unwrap();
        assert_eq!(said, GenerationDefaults::default());
        for value in [json!(200), json!("hot")] {
            let error = read(json!({"general.sampling.temp": value})).unwrap_err().to_string();
            assert!(error.contains("temperature") && error.contains("model.gguf"), "{error}");
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (json, name) in [
            (r#"{"temperature":-1}"#, "temperature"),
            (r#"{"top_p":1.5}"#, "top_p"),
            (r#"{"repetition_penalty":0}"#, "repetition_penalty"),
            (r#"{"top_k":-7}"#, "top_k"),
            (r#"{"top_k":"many"}"#, "top_k"),
            (r#"{"eos_token_id":-1}"#, "eos_token_id"),
            ("<!doctype html>", "HTML"),
            ("version https://git-lfs.github.com/spec/v1", "LFS"),
        ] {
            let message = read(json, "{}").unwrap_err().to_string();
            assert!(message.contains(name) && message.contains(FILE), "{message}");
        }
    }
}

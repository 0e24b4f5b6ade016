//! Rotary position embedding: its settings in `config.json`, and its frequencies.

use super::json::Fields;
use crate::error::Result;
use serde_json::Value;
use std::f64::consts::TAU;

const CONTEXT: &str = "max_position_embeddings";
const ORIGINAL_CONTEXT: &str = "original_max_position_embeddings";

/// Rotary position embedding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rope {
    pub theta: f64,
    /// Rotated dims of a head: the first ones, i paired with i + dims / 2.
    pub dims: usize,
    pub scaling: RopeScaling,
}

/// Rotary scaling for contexts beyond the trained length.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RopeScaling {
    #[default]
    None,
    /// All frequencies divided by `factor`.
    Linear { factor: f64 },
    /// Llama 3: low frequencies divided by `factor`, high ones kept, a ramp between.
    Llama3 { factor: f64, low: f64, high: f64, original_context: f64 },
    /// YaRN (arXiv 2309.00071): pairs of dims with fewer than `slow` turns within the original context
    /// are divided by `factor`, those with more than `fast` turns are kept, with a ramp between; with
    /// `truncate`, the ramp ends at whole dims. Cosines and sines are multiplied by `magnitude`.
    Yarn {
        factor: f64,
        original_context: f64,
        fast: f64,
        slow: f64,
        truncate: bool,
        magnitude: f64,
    },
    /// Each frequency is divided by its own factor, see [`super::Param::RopeFactors`].
    Factors,
    /// LongRoPE: each frequency is divided by its own factor, from one list for contexts up to the
    /// original length, from another for longer ones. Cosines and sines are multiplied by `magnitude`.
    Long {
        original_context: usize,
        magnitude: f64,
        /// Empty if they are weights, see [`super::Param::RopeFactors`].
        short: Vec<f64>,
        /// Empty if they are weights, see [`super::Param::LongRopeFactors`].
        long: Vec<f64>,
    },
}

impl Rope {
    /// Reads `rope_parameters`, or in older files `rope_theta` and `rope_scaling`, for heads whose dims
    /// are all rotated.
    pub(super) fn from_fields(fields: &Fields, head_dim: usize, theta: f64) -> Result<Rope> {
        fields.require("partial_rotary_factor", &[1.into(), 1.0.into()], "1")?;
        if let Some(nested) = nested(fields)?.1 {
            nested.require("partial_rotary_factor", &[1.into(), 1.0.into()], "1")?;
        }
        Rope::from_nested(fields, head_dim, theta)
    }

    /// The same for partly rotated heads, see `partial_rotary_factor`.
    pub(super) fn in_part(fields: &Fields, head_dim: usize) -> Result<Rope> {
        Rope::from_nested(fields, rotary_dims(fields, head_dim)?, 10_000.0)
    }

    /// The same for heads whose first `dims` dims are rotated, with a default for `rope_theta`.
    fn from_nested(fields: &Fields, dims: usize, theta: f64) -> Result<Rope> {
        let (place, mut nested) = nested(fields)?;
        let theta = [nested.as_ref(), Some(fields)]
            .into_iter()
            .flatten()
            .find(|fields| fields.get("rope_theta").is_some())
            .map_or(Ok(theta), |fields| fields.positive("rope_theta"))?;
        if let Some(nested) = &mut nested {
            inherit_context(nested, fields);
        }
        let scaling = match &nested {
            Some(nested) => scaling(nested, dims, place == "rope_parameters")?,
            None => RopeScaling::None,
        };
        Ok(Rope { theta, dims, scaling })
    }

    /// Reads `rope_parameters` of some layers only, which are `own`.
    pub(super) fn from_parameters(
        fields: &Fields,
        mut own: Fields,
        dims: usize,
        theta: f64,
    ) -> Result<Rope> {
        inherit_context(&mut own, fields);
        own.require("partial_rotary_factor", &[1.into(), 1.0.into()], "1")?;
        let theta = own.positive_or("rope_theta", theta)?;
        Ok(Rope { theta, dims, scaling: scaling(&own, dims, true)? })
    }

    /// The rotation angle per position of each pair of dims: `[dims / 2]`.
    ///
    /// For conversations of up to `context` tokens. `factors`: the weights that
    /// [`super::ModelConfig::rope_factors`] names, or empty.
    pub fn inverse_frequencies(&self, factors: &[f32], context: usize) -> Vec<f32> {
        let listed = match &self.scaling {
            RopeScaling::Long { original_context, short, long, .. } => {
                if context > *original_context { long } else { short }
            }
            _ => &Vec::new(),
        };
        let frequencies = (0..self.dims / 2).map(|i| {
            let frequency = self.theta.powf(-(2.0 * i as f64) / self.dims as f64);
            let stored = factors.get(i).map_or(1.0, |factor| f64::from(*factor));
            let factor = listed.get(i).copied().unwrap_or(stored);
            (self.scale(i as f64, frequency) / factor) as f32
        });
        frequencies.collect()
    }

    /// Multiplier of cosines and sines.
    pub fn magnitude(&self) -> f64 {
        match self.scaling {
            RopeScaling::Long { magnitude, .. } | RopeScaling::Yarn { magnitude, .. } => magnitude,
            _ => 1.0,
        }
    }

    /// Scales the frequency of a pair of dims.
    fn scale(&self, pair: f64, frequency: f64) -> f64 {
        match self.scaling {
            RopeScaling::None | RopeScaling::Factors | RopeScaling::Long { .. } => frequency,
            RopeScaling::Linear { factor } => frequency / factor,
            RopeScaling::Llama3 { factor, low, high, original_context } => {
                let turns = original_context * frequency / TAU;
                let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                kept * frequency + (1.0 - kept) * frequency / factor
            }
            RopeScaling::Yarn { factor, original_context, fast, slow, truncate, .. } => {
                let dims = self.dims as f64;
                // The pair with this many turns.
                let place = |turns: f64| {
                    dims * (original_context / (turns * TAU)).ln() / (2.0 * self.theta.ln())
                };
                let (mut low, mut high) = (place(fast), place(slow));
                if truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                (low, high) = (low.max(0.0), high.min(dims - 1.0));
                if low == high {
                    high += 0.001;
                }
                let stretched = ((pair - low) / (high - low)).clamp(0.0, 1.0);
                stretched * frequency / factor + (1.0 - stretched) * frequency
            }
        }
    }
}

/// Rotated dims of a head, from `partial_rotary_factor`.
pub(super) fn rotary_dims(fields: &Fields, head_dim: usize) -> Result<usize> {
    let nested = fields.object("rope_parameters")?;
    let share = [nested.as_ref(), Some(fields)]
        .into_iter()
        .flatten()
        .find(|fields| fields.get("partial_rotary_factor").is_some());
    let share = share.map_or(Ok(1.0), |fields| fields.positive("partial_rotary_factor"))?;
    let dims = (head_dim as f64 * share) as usize;
    if dims == 0 || dims > head_dim || !dims.is_multiple_of(4) {
        let expected = format!("a share of {head_dim} dims that is a multiple of 4");
        return Err(fields.invalid_as("partial_rotary_factor", share, expected));
    }
    Ok(dims)
}

/// The object with the settings and its name; older files call it `rope_scaling`.
fn nested(fields: &Fields) -> Result<(&'static str, Option<Fields>)> {
    match fields.object("rope_parameters")? {
        Some(parameters) => Ok(("rope_parameters", Some(parameters))),
        None => Ok(("rope_scaling", fields.object("rope_scaling")?)),
    }
}

/// Completes settings with the contexts that the file states outside them.
fn inherit_context(settings: &mut Fields, file: &Fields) {
    for (field, from) in
        [(ORIGINAL_CONTEXT, ORIGINAL_CONTEXT), (ORIGINAL_CONTEXT, CONTEXT), (CONTEXT, CONTEXT)]
    {
        if let Some(context) = file.get(from) {
            settings.set_default(field, context.clone());
        }
    }
}

/// Reads the rotary scaling of `dims` rotated dims; it may be absent if `default_allowed`.
fn scaling(fields: &Fields, dims: usize, default_allowed: bool) -> Result<RopeScaling> {
    let key = if fields.get("rope_type").is_some() { "rope_type" } else { "type" };
    match fields.text(key)? {
        None if default_allowed => Ok(RopeScaling::None),
        Some("default") => Ok(RopeScaling::None),
        // Frequencies change only beyond `max_position_embeddings`, which no context here exceeds.
        Some("dynamic") => {
            fields.require("alpha", &[], "absent: it is not supported")?;
            fields.positive("factor").map(|_| RopeScaling::None)
        }
        Some("linear") => Ok(RopeScaling::Linear { factor: fields.positive("factor")? }),
        Some("llama3") => {
            let low = fields.positive("low_freq_factor")?;
            let high = fields.positive("high_freq_factor")?;
            if high <= low {
                let expected = format!("a number above low_freq_factor, {low}");
                return Err(fields.invalid("high_freq_factor", expected));
            }
            Ok(RopeScaling::Llama3 {
                factor: fields.positive("factor")?,
                low,
                high,
                original_context: fields.positive(ORIGINAL_CONTEXT)?,
            })
        }
        Some("longrope" | "su") => longrope(fields, dims),
        // The name that Phi-3 had for it at first.
        Some("yarn") if fields.has("long_factor") => longrope(fields, dims),
        Some("yarn") => {
            let factor = fields.positive("factor")?;
            Ok(RopeScaling::Yarn {
                factor,
                original_context: fields.positive(ORIGINAL_CONTEXT)?,
                fast: fields.positive_or("beta_fast", 32.0)?,
                slow: fields.positive_or("beta_slow", 1.0)?,
                truncate: fields.get("truncate").is_none() || fields.flag("truncate")?,
                magnitude: match fields.get("attention_factor") {
                    Some(_) => fields.positive("attention_factor")?,
                    None if fields.has("mscale") && fields.has("mscale_all_dim") => {
                        yarn_magnitude(factor, fields.positive_or("mscale", 1.0)?)
                            / yarn_magnitude(factor, fields.positive_or("mscale_all_dim", 1.0)?)
                    }
                    None => yarn_magnitude(factor, 1.0),
                },
            })
        }
        _ => {
            let kinds =
                "\"default\", \"linear\", \"dynamic\", \"llama3\", \"yarn\" or \"longrope\"";
            Err(fields.invalid(key, kinds))
        }
    }
}

fn longrope(fields: &Fields, dims: usize) -> Result<RopeScaling> {
    let original_context = fields.count(ORIGINAL_CONTEXT, 2..=1 << 24)?;
    let factors = |field: &str| -> Result<Vec<f64>> {
        let list = fields.list(field)?;
        let factors: Vec<f64> =
            list.iter().filter_map(Value::as_f64).filter(|factor| *factor > 0.0).collect();
        match factors.len() == dims / 2 && list.len() == dims / 2 {
            true => Ok(factors),
            false => Err(fields.invalid(field, format!("{} numbers above 0", dims / 2))),
        }
    };
    let longer = match fields.get("factor") {
        Some(_) => fields.positive("factor")?,
        None => fields.positive(CONTEXT)? / original_context as f64,
    };
    let magnitude = match fields.get("attention_factor") {
        Some(_) => fields.positive("attention_factor")?,
        None if longer > 1.0 => (1.0 + longer.ln() / (original_context as f64).ln()).sqrt(),
        None => 1.0,
    };
    let (short, long) = (factors("short_factor")?, factors("long_factor")?);
    Ok(RopeScaling::Long { original_context, magnitude, short, long })
}

/// YaRN's default multiplier of cosines and sines.
pub(super) fn yarn_magnitude(factor: f64, scale: f64) -> f64 {
    1.0 + 0.1 * scale * factor.max(1.0).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `LlamaRotaryEmbedding(config).inv_freq` of transformers 5.23, in f32.
    #[test]
    fn frequencies_are_those_of_transformers() {
        let llama3 = Rope {
            theta: 500000.0,
            dims: 64,
            scaling: RopeScaling::Llama3 {
                factor: 32.0,
                low: 1.0,
                high: 4.0,
                original_context: 8192.0,
            },
        };
        let plain = Rope { theta: 500000.0, dims: 64, scaling: RopeScaling::None };
        let linear =
            Rope { theta: 10000.0, dims: 16, scaling: RopeScaling::Linear { factor: 4.0 } };
        let yarn = |theta, dims, factor, original_context, truncate| Rope {
            theta,
            dims,
            scaling: RopeScaling::Yarn {
                factor,
                original_context,
                fast: 32.0,
                slow: 1.0,
                truncate,
                magnitude: 1.0,
            },
        };
        let qwen3 = yarn(1_000_000.0, 128, 4.0, 32_768.0, true);
        let gpt_oss = yarn(150_000.0, 64, 32.0, 4096.0, false);
        for (rope, first, expected) in [
            (
                &qwen3,
                21,
                &[0.0107460786, 0.00865964312, 0.00697830599, 0.00537532149, 0.0041317381][..],
            ),
            (&qwen3, 36, &[0.000179841154]),
            (&qwen3, 40, &[4.44569851e-05]),
            (&gpt_oss, 8, &[0.0508132726]),
            (&gpt_oss, 12, &[0.00679495931]),
            (&gpt_oss, 16, &[0.000456483918]),
            (&gpt_oss, 20, &[1.8188337e-05, 1.25325696e-05]),
            (&plain, 0, &[1.0, 0.663601279, 0.440366626, 0.292227834][..]),
            (&plain, 28, &[1.03133852e-05, 6.84397537e-06, 4.54167048e-06, 3.01385808e-06]),
            (
                &linear,
                0,
                &[
                    0.25,
                    0.079056941,
                    0.0250000004,
                    0.00790569466,
                    0.00249999994,
                    0.000790569466,
                    0.000250000012,
                    7.90569466e-05,
                ],
            ),
            // Kept, then the ramp, then divided by the factor.
            (
                &llama3,
                12,
                &[
                    0.00729266508,
                    0.00483942125,
                    0.00321144611,
                    0.00129054801,
                    0.000429556705,
                    9.70828623e-05,
                    1.94616387e-05,
                    1.29147675e-05,
                ],
            ),
            (&llama3, 30, &[1.41927202e-07, 9.41830649e-08]),
        ] {
            let frequencies = rope.inverse_frequencies(&[], 1);
            assert_eq!(frequencies.len(), rope.dims / 2);
            for (found, expected) in frequencies[first..].iter().zip(expected) {
                let error = (f64::from(*found) / expected - 1.0).abs();
                assert!(error < 1e-6, "{rope:?}: {found} instead of {expected}");
            }
        }
    }
}

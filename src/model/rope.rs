//! Rotary position embedding: its settings in `config.json` and the frequencies they mean.

use super::json::Fields;
use crate::error::Result;
use std::f64::consts::TAU;

/// Rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    pub theta: f64,
    pub scaling: RopeScaling,
}

/// How rotary frequencies are stretched for contexts beyond the trained one.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    None,
    /// All frequencies divided by `factor`.
    Linear {
        factor: f64,
    },
    /// Llama 3: low frequencies divided by `factor`, high ones kept, a ramp between.
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original_context: f64,
    },
    /// Each frequency divided by a factor of its own, see [`super::Param::RopeFactors`].
    Factors,
}

impl Rope {
    /// Reads `rope_parameters`, or `rope_theta` and `rope_scaling` of older files.
    pub(super) fn from_fields(fields: &Fields) -> Result<Rope> {
        fields.require("partial_rotary_factor", &[1.into(), 1.0.into()], "1")?;
        let (place, nested) = match fields.object("rope_parameters")? {
            Some(parameters) => ("rope_parameters", Some(parameters)),
            None => ("rope_scaling", fields.object("rope_scaling")?),
        };
        let theta = [nested.as_ref(), Some(fields)]
            .into_iter()
            .flatten()
            .find(|fields| fields.get("rope_theta").is_some())
            .map_or(Ok(10_000.0), |fields| fields.positive("rope_theta"))?;
        let scaling = match &nested {
            Some(nested) => scaling(nested, place == "rope_parameters")?,
            None => RopeScaling::None,
        };
        Ok(Rope { theta, scaling })
    }

    /// The angles by which each pair of a head's dimensions turns per position: `[head_dim / 2]`.
    ///
    /// `factors` are those of [`RopeScaling::Factors`], and otherwise empty.
    pub fn inverse_frequencies(&self, head_dim: usize, factors: &[f32]) -> Vec<f32> {
        let frequencies = (0..head_dim / 2).map(|i| {
            let frequency = self.theta.powf(-(2.0 * i as f64) / head_dim as f64);
            let factor = factors.get(i).map_or(1.0, |factor| f64::from(*factor));
            (self.scaling.apply(frequency) / factor) as f32
        });
        frequencies.collect()
    }
}

impl RopeScaling {
    fn apply(&self, frequency: f64) -> f64 {
        match *self {
            RopeScaling::None | RopeScaling::Factors => frequency,
            RopeScaling::Linear { factor } => frequency / factor,
            RopeScaling::Llama3 { factor, low, high, original_context } => {
                let turns = original_context * frequency / TAU;
                let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                kept * frequency + (1.0 - kept) * frequency / factor
            }
        }
    }
}

fn scaling(fields: &Fields, default_allowed: bool) -> Result<RopeScaling> {
    fields.require("partial_rotary_factor", &[1.into(), 1.0.into()], "1")?;
    let key = if fields.get("rope_type").is_some() { "rope_type" } else { "type" };
    match fields.text(key)? {
        None if default_allowed => Ok(RopeScaling::None),
        Some("default") => Ok(RopeScaling::None),
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
                original_context: fields.positive("original_max_position_embeddings")?,
            })
        }
        _ => Err(fields.invalid(key, "\"default\", \"linear\" or \"llama3\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `LlamaRotaryEmbedding(config).inv_freq` of transformers 5.23, in f32.
    #[test]
    fn frequencies_are_those_of_transformers() {
        let llama3 = Rope {
            theta: 500000.0,
            scaling: RopeScaling::Llama3 {
                factor: 32.0,
                low: 1.0,
                high: 4.0,
                original_context: 8192.0,
            },
        };
        let plain = Rope { theta: 500000.0, scaling: RopeScaling::None };
        let linear = Rope { theta: 10000.0, scaling: RopeScaling::Linear { factor: 4.0 } };
        for (rope, head_dim, first, expected) in [
            (&plain, 64, 0, &[1.0, 0.663601279, 0.440366626, 0.292227834][..]),
            (&plain, 64, 28, &[1.03133852e-05, 6.84397537e-06, 4.54167048e-06, 3.01385808e-06]),
            (
                &linear,
                16,
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
                64,
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
            (&llama3, 64, 30, &[1.41927202e-07, 9.41830649e-08]),
        ] {
            let frequencies = rope.inverse_frequencies(head_dim, &[]);
            assert_eq!(frequencies.len(), head_dim / 2);
            for (found, expected) in frequencies[first..].iter().zip(expected) {
                let error = (f64::from(*found) / expected - 1.0).abs();
                assert!(error < 1e-6, "{rope:?}: {found} instead of {expected}");
            }
        }
    }
}

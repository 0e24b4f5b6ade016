//! A report on sizes and errors of a quantised model.

use std::{collections::BTreeMap, fmt};

use super::{evaluate::Comparison, quantiser::Loss};

/// Sizes and errors of a quantised folder.
pub struct Report {
    /// Bits per quantised weight, scales included, and per unquantised weight.
    pub bits_per_weight: [f64; 2],
    /// Rounding errors by the name of the module's weight.
    pub losses: BTreeMap<String, Loss>,
    /// Bytes of all tensors, before and after.
    pub bytes: [u64; 2],
    /// On held-out text, if there is one.
    pub comparison: Option<Comparison>,
}

impl Report {
    /// Mean errors over the layers, by kind of module.
    fn kinds(&self) -> Vec<(&str, Loss)> {
        let mut kinds: Vec<(&str, Vec<Loss>)> = Vec::new();
        for (name, loss) in &self.losses {
            let kind = name.trim_end_matches(".weight").rsplit('.').next().unwrap_or(name);
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, losses)) => losses.push(*loss),
                None => kinds.push((kind, vec![*loss])),
            }
        }
        kinds.into_iter().map(|(kind, losses)| (kind, mean(losses.iter()))).collect()
    }

    /// Mean errors of all modules.
    pub fn mean(&self) -> Loss {
        mean(self.losses.values())
    }
}

fn mean<'a>(losses: impl ExactSizeIterator<Item = &'a Loss>) -> Loss {
    let count = losses.len() as f64;
    let sum = losses.copied().reduce(|a, b| Loss {
        weights: a.weights + b.weights,
        outputs: a.outputs.zip(b.outputs).map(|(a, b)| a + b),
    });
    let sum = sum.unwrap_or_default();
    Loss { weights: sum.weights / count, outputs: sum.outputs.map(|outputs| outputs / count) }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "{:12} {:>11} {:>12} {:>12}",
            "", "bits/weight", "weight error", "output error"
        )?;
        let [bits, kept] = self.bits_per_weight;
        for (kind, loss) in self.kinds().into_iter().chain([("all", self.mean())]) {
            let outputs = loss.outputs.map_or("-".into(), |outputs| format!("{outputs:.3e}"));
            let weights = format!("{:.3e}", loss.weights);
            writeln!(f, "{kind:12} {bits:11.3} {weights:>12} {outputs:>12}")?;
        }
        writeln!(f, "{:12} {kept:11.3}", "others")?;
        let [before, after] = self.bytes.map(|bytes| bytes as f64 / 1e6);
        writeln!(f, "{after:.2} MB of tensors, {before:.2} MB before")?;
        if let Some(Comparison { perplexity: [before, after], divergence, nmse }) = self.comparison
        {
            writeln!(f, "held-out text: perplexity {after:.4}, {before:.4} before")?;
            writeln!(f, "KL divergence {divergence:.3e} nats, NMSE of the logits {nmse:.3e}")?;
        }
        Ok(())
    }
}

//! The golden checkpoints, compared with the `safetensors` crate and plain arithmetic.

use super::*;
use crate::layout::HostMatrix;
use crate::layout::Layout;
use crate::model::{Param, ParamSource, Shape};
use ::safetensors::SafeTensors;
use half::{bf16, f16};
use std::path::{Path, PathBuf};

fn folders() -> Vec<PathBuf> {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let entries = std::fs::read_dir(goldens).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = entries.filter(|path| path.join("logits.bin").exists()).collect();
    assert!(folders.len() >= 12, "all golden models are there: {folders:?}");
    folders
}

/// A checkpoint's tensors, as the crate reads them.
struct Expected {
    files: Vec<Vec<u8>>,
}

impl Expected {
    fn read(folder: &Path) -> Expected {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let shards = entries.filter(|path| path.extension().is_some_and(|e| e == "safetensors"));
        Expected { files: shards.map(|path| std::fs::read(path).unwrap()).collect() }
    }

    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        // The names of models that also take images.
        let long = format!("language_model.{name}");
        let named = |name| {
            let mut files = self.files.iter();
            files.find_map(|file| SafeTensors::deserialize(file).unwrap().tensor(name).ok())
        };
        named(name).or_else(|| named(&long))
    }

    fn floats(&self, name: &str) -> Option<Vec<f32>> {
        let tensor = self.tensor(name)?;
        let half = |pair: &[u8]| [pair[0], pair[1]];
        Some(match tensor.dtype() {
            Dtype::F32 => words(&tensor).into_iter().map(f32::from_bits).collect(),
            Dtype::F16 => {
                let pairs = tensor.data().chunks(2);
                pairs.map(|pair| f16::from_le_bytes(half(pair)).to_f32()).collect()
            }
            Dtype::BF16 => {
                let pairs = tensor.data().chunks(2);
                pairs.map(|pair| bf16::from_le_bytes(half(pair)).to_f32()).collect()
            }
            other => panic!("{name} is {other}"),
        })
    }

    /// Values of the rows of a source, `[rows][k]`.
    fn rows(&self, source: &ParamSource, k: usize) -> Vec<f32> {
        let ParamSource { name, rows, interleaved, by_columns, slice } = source;
        let stored = match self.mxfp4(name) {
            Some(values) => values,
            None => self.weight(name, *rows, k),
        };
        if *by_columns {
            return (0..stored.len()).map(|i| stored[i % k * rows + i / k]).collect();
        }
        let first = slice.map_or(0, |slice| slice.index * rows);
        let row = |row: usize| &stored[(first + row) * k..][..k];
        match interleaved {
            None => (0..*rows).flat_map(row).copied().collect(),
            // The even rows of each head, then the odd ones.
            Some(head) => (0..*rows)
                .map(|i| (i / head * head, i % head))
                .flat_map(|(first, i)| row(first + i % (head / 2) * 2 + i / (head / 2)))
                .copied()
                .collect(),
        }
    }

    /// Values of the experts of gpt-oss.
    fn mxfp4(&self, name: &str) -> Option<Vec<f32>> {
        let name = name.strip_suffix(".weight")?;
        let blocks = self.tensor(&format!("{name}_blocks"))?;
        let scales = self.tensor(&format!("{name}_scales"))?;
        let values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        let nibbles = blocks.data().iter().flat_map(|byte| [byte % 16, byte / 16]);
        let value = |(i, nibble): (usize, u8)| {
            let scale = 2f32.powi(i32::from(scales.data()[i / 32]) - 127);
            let sign = if nibble < 8 { scale } else { -scale };
            sign * values[usize::from(nibble % 8)]
        };
        Some(nibbles.enumerate().map(value).collect())
    }

    /// Values of a module's weight, `[rows][k]`, by the formula (nibble − zero point)·scale.
    fn weight(&self, name: &str, rows: usize, k: usize) -> Vec<f32> {
        if let Some(values) = self.floats(name) {
            return values;
        }
        let packed = words(&self.tensor(&format!("{name}_packed")).unwrap());
        let scales = self.floats(&format!("{name}_scale")).unwrap();
        let zero_points = self.tensor(&format!("{name}_zero_point")).map(|tensor| words(&tensor));
        let groups = scales.len() / rows;
        let group =
            [32, 64, 128, k].into_iter().find(|group| k.div_ceil(*group) == groups).unwrap();
        let value = |row: usize, column: usize| {
            let nibble = packed[row * k.div_ceil(8) + column / 8] >> (4 * (column % 8)) & 15;
            let zero_point = zero_points.as_ref().map_or(8, |words| {
                words[row / 8 * groups + column / group] >> (4 * (row % 8)) & 15
            });
            (nibble as f32 - zero_point as f32) * scales[row * groups + column / group]
        };
        (0..rows * k).map(|i| value(i / k, i % k)).collect()
    }
}

fn words(tensor: &TensorView) -> Vec<u32> {
    let words = tensor.data().chunks(4);
    words.map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn goldens_load_as_they_are_stored() {
    for folder in folders() {
        let bytes = std::fs::read(folder.join("config.json")).unwrap();
        let config = ModelConfig::from_json(&bytes).unwrap();
        let expected = Expected::read(&folder);
        let weights = load(&FolderSource::new(&folder), &Quantise::KEEP).unwrap();

        let params = config.params();
        assert_eq!(weights.matrices.len() + weights.vectors.len(), params.len());
        for spec in params {
            match spec.shape {
                Shape::Vector { .. } => {
                    let parts = spec.sources.iter().map(|source| expected.rows(source, 1));
                    let more = if spec.less_one { 1.0 } else { 0.0 };
                    let values: Vec<f32> = parts.flatten().map(|value| value + more).collect();
                    assert_eq!(weights.vectors[&spec.param], values);
                }
                Shape::Matrix { n, k } => {
                    let parts = spec.sources.iter().map(|source| expected.rows(source, k));
                    let values: Vec<f32> = parts.flatten().collect();
                    assert_eq!(values.len(), n * k);
                    check(&folder, spec.param, &weights.matrices[&spec.param][0], &values);
                }
            }
        }
    }
}

/// Floats are kept bit for bit. For nibbles, scale and min are rounded to f16: each within 2^-11, which
/// the scale contributes up to 15 times.
fn check(folder: &Path, param: Param, matrix: &HostMatrix, expected: &[f32]) {
    let mut row_values = vec![0.0; matrix.k];
    let row_scales = matrix.layout.row_scales(matrix.k);
    for (row, expected) in expected.chunks(matrix.k).enumerate() {
        matrix.dequantise_row(row, &mut row_values);
        for (column, (found, expected)) in row_values.iter().zip(expected).enumerate() {
            let bound = match matrix.layout {
                Layout::W4 { group } => {
                    let word = matrix.scales[row * row_scales + column / group];
                    30.0 * f16::from_bits(word as u16).to_f32() / 2048.0
                }
                _ => 0.0,
            };
            assert!(
                (found - expected).abs() <= bound,
                "{folder:?} {param:?} row {row} column {column}: {found} instead of {expected}"
            );
        }
    }
}

#[test]
fn quantising_while_loading_equals_packing_the_values() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/odd_f32");
    let source = FolderSource::new(&folder);
    let kept = load(&source, &Quantise::KEEP).unwrap();
    let (w4, w8) = (Layout::W4 { group: 64 }, Layout::W8 { group: 32 });
    let quantise = Quantise { matrices: Some(w4), embeddings: Some(w8) };
    let quantised = load(&source, &quantise).unwrap();
    assert_eq!(quantised.vectors, kept.vectors);
    assert_eq!(quantised.matrices.len(), kept.matrices.len());
    for (param, parts) in kept.matrices {
        let [matrix] = &parts[..] else { panic!("{param:?} has parts") };
        let (n, k) = (matrix.n, matrix.k);
        let mut values = vec![0.0; n * k];
        for (row, values) in values.chunks_mut(k).enumerate() {
            matrix.dequantise_row(row, values);
        }
        let layout = if matches!(param, Param::Embed | Param::Head) { w8 } else { w4 };
        assert_eq!(quantised.matrices[&param], [HostMatrix::pack(layout, n, k, &values)]);
    }
}

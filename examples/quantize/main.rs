//! Quantises a checkpoint to int4 or int8 in the compressed-tensors format.
//!
//! ```sh
//! cargo run --release --example quantize -- --model PATH --out PATH --method gptq --calibration TEXT
//! ```
//!
//! Tabloom, and transformers with compressed-tensors, can load the written folder. Only the layers'
//! matrices are quantised; embeddings, the output matrix and norms stay unchanged.

pub mod awq;
pub mod checkpoint;
pub mod dense;
pub mod evaluate;
pub mod gptq;
pub mod gram;
pub mod model;
pub mod quantiser;
pub mod report;
pub mod rtn;
pub mod text;
pub mod writer;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use tabloom::{
    layout::FloatType,
    model::{ModelConfig, Quantization, Shape},
};

pub use quantiser::Method;
pub use report::Report;

use checkpoint::Checkpoint;
use model::Model;
use rtn::Format;
use text::Text;

/// Quantises a checkpoint to int4 or int8 in the compressed-tensors format.
#[derive(Clone, Debug, Parser)]
pub struct Arguments {
    /// A folder in Hugging Face's layout: safetensors in f32, f16 or bf16.
    #[arg(long)]
    pub model: PathBuf,
    /// Where to write the quantised folder; new or empty.
    #[arg(long)]
    pub out: PathBuf,
    #[arg(long, value_enum, default_value = "rtn")]
    pub method: Method,
    /// Bits per weight.
    #[arg(long, default_value_t = 4, value_parser = parse_bits)]
    pub bits: usize,
    /// Columns that share a scale.
    #[arg(long, default_value_t = 32, value_parser = parse_group)]
    pub group: usize,
    /// Symmetric scales without zero points: slightly smaller, less accurate. Always used with 8 bits.
    #[arg(long)]
    pub symmetric: bool,
    /// A text file of some hundred kilobytes that resembles the model's inputs, control tokens included.
    /// Required by GPTQ and AWQ; it is also used to measure errors.
    #[arg(long)]
    pub calibration: Option<PathBuf>,
    /// Most tokens for calibration.
    #[arg(long, default_value_t = 8192)]
    pub tokens: usize,
    /// Most tokens, after those, for measuring errors.
    #[arg(long, default_value_t = 2048)]
    pub held_out: usize,
    /// Tokens per sequence.
    #[arg(long, default_value_t = 512)]
    pub sequence: usize,
}

fn parse_bits(text: &str) -> Result<usize, String> {
    match text {
        "4" | "8" => Ok(if text == "4" { 4 } else { 8 }),
        _ => Err("expected 4 or 8".into()),
    }
}

fn parse_group(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(group @ (32 | 64 | 128)) => Ok(group),
        _ => Err("expected 32, 64 or 128".into()),
    }
}

fn main() -> Result<()> {
    let start = Instant::now();
    let report = run(&Arguments::parse())?;
    print!("{report}");
    eprintln!("{:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Checks the input, quantises, writes, and measures the written checkpoint.
pub fn run(arguments: &Arguments) -> Result<Report> {
    let Arguments { model: from, out: to, method, .. } = arguments;
    ensure!(
        to.read_dir().map_or(true, |mut entries| entries.next().is_none()),
        "{} is not empty",
        to.display()
    );
    let json = fs::read(from.join("config.json"))
        .with_context(|| format!("cannot read config.json of {}", from.display()))?;
    let config = ModelConfig::from_json(&json)?;
    if Quantization::from_json(&json)?.is_some() {
        bail!("{} is quantised already; expected one in f32, f16 or bf16", from.display());
    }
    if config.experts.is_some() {
        bail!("{} is a mixture of experts, which this tool does not quantise", from.display());
    }
    let checkpoint = Checkpoint::open(from)?;
    let format = format(arguments, &config, &checkpoint)?;
    let text = match &arguments.calibration {
        Some(file) => Some(read_text(file, arguments, &config)?),
        None if *method == Method::Rtn => None,
        None => bail!("{method:?} needs a text: --calibration FILE"),
    };
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;

    let calibration = text.as_ref().map_or(&[][..], |text| &text.calibration);
    eprintln!("{}", needs(&config, &checkpoint, *method, calibration));
    let quantised =
        quantiser::quantise(Model::load(from)?, &checkpoint, &format, *method, calibration)?;
    let after = writer::write(&quantised, &format, &checkpoint, [from, to], writer::SHARD_BYTES)?;
    let kept = writer::kept_bits(&quantised, &checkpoint)?;
    let losses = quantised.losses;
    drop(quantised.model);
    let compare = |text: &Text| {
        eprintln!("Measuring the written checkpoint");
        evaluate::compare(Model::load(from)?, Model::load(to)?, &text.held_out)
    };
    Ok(Report {
        bits_per_weight: [format.bits_per_weight(), kept],
        losses,
        bytes: [checkpoint.bytes(), after],
        comparison: text.as_ref().map(compare).transpose()?,
    })
}

/// The format of the codes, if it fits the checkpoint.
fn format(arguments: &Arguments, config: &ModelConfig, checkpoint: &Checkpoint) -> Result<Format> {
    let Arguments { bits, group, symmetric, .. } = *arguments;
    let mut scales = FloatType::F16;
    for spec in quantiser::matrices(config) {
        let Shape::Matrix { k, .. } = spec.shape else { continue };
        for source in &spec.sources {
            let name = &source.name;
            ensure!(
                !source.by_columns,
                "{name} is stored by columns, which is not supported for quantisation"
            );
            scales = checkpoint.float(name)?;
            ensure!(
                k % group == 0,
                "{name} has {k} columns, which groups of {group} do not divide"
            );
        }
    }
    Ok(Format { bits, group, symmetric, scales })
}

fn read_text(file: &Path, arguments: &Arguments, config: &ModelConfig) -> Result<Text> {
    let Arguments { model, tokens, held_out, sequence, .. } = arguments;
    let length = *sequence.min(&config.context);
    ensure!(length >= 16, "--sequence {length} is too short: expected at least 16 tokens");
    Text::read(file, model, *tokens, *held_out, length)
}

/// A description of the work and its peak memory.
fn needs(
    config: &ModelConfig,
    checkpoint: &Checkpoint,
    method: Method,
    text: &[Vec<u32>],
) -> String {
    let tokens: usize = text.iter().map(Vec::len).sum();
    let mut largest = 0;
    let mut matrices = 0;
    for spec in quantiser::matrices(config) {
        if let Shape::Matrix { n, k } = spec.shape {
            // The matrix, the rounded one and their difference; H and its factors; the input.
            let gram = if text.is_empty() { 0 } else { 16 * k * k + 8 * tokens * k };
            largest = largest.max(16 * n * k + gram);
            matrices += n * k;
        }
    }
    // Scaled columns are stored in f32.
    let enlarged = if method == Method::Awq { 4 * matrices } else { 0 };
    let width = 4 * config.hidden + config.qkv_rows() + 2 * config.attention_width();
    let activations = 4 * tokens * (width + config.intermediate);
    let bytes = checkpoint.bytes() + (largest + enlarged + activations) as u64;
    let what = match tokens {
        0 => "no text".into(),
        _ => format!("{tokens} tokens in {} sequences", text.len()),
    };
    format!("{what}; needs about {:.2} GB of memory", bytes as f64 / 1e9)
}

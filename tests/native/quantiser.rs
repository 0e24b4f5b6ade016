//! Offline quantisation of checkpoints: results, errors and loss.

#[path = "../../examples/quantize/main.rs"]
#[allow(dead_code)] // the program uses the rest
mod quantize;

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use crate::support::{
    goldens::{folder, golden},
    nmse, uniform,
};
use clap::Parser;
use serde_json::Value;
use tabloom::{
    layout::{FloatType, HostMatrix, unpack_halves},
    model::ModelConfig,
};

use quantize::{
    Arguments, Method, Report,
    checkpoint::{self, Checkpoint},
    dense::Dense,
    evaluate, gptq,
    gram::Gram,
    model::Model,
    quantiser,
    rtn::{self, Format},
    run, writer,
};

/// A folder that is deleted when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("tabloom-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("it can be created");
        Scratch(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn arguments(model: &Path, out: &Path, rest: &str) -> Arguments {
    let paths = ["quantize", "--model", model.to_str().unwrap(), "--out", out.to_str().unwrap()];
    Arguments::parse_from(paths.into_iter().chain(rest.split_whitespace()))
}

/// The first layers of the built-in model in 16 bits, with its text side.
fn in_16_bits(to: &Path) {
    const LAYERS: usize = 1;
    let from = PathBuf::from(format!("{}/www/model", env!("CARGO_MANIFEST_DIR")));
    let model = Model::load(&from).expect("the built-in model loads");
    let mut tensors = Vec::new();
    for spec in (ModelConfig { layers: LAYERS, ..model.config }).params() {
        let values = match model.weights.matrices.get(&spec.param) {
            Some(parts) => Dense::of(parts).values,
            None => model.weights.vectors[&spec.param].clone(),
        };
        let rows: usize = spec.sources.iter().map(|source| source.rows).sum();
        let mut rest = &values[..];
        for source in &spec.sources {
            let (values, after) = rest.split_at(values.len() / rows * source.rows);
            rest = after;
            let mut shape = vec![source.rows, values.len() / source.rows];
            shape.truncate(if model.weights.vectors.contains_key(&spec.param) { 1 } else { 2 });
            let (dtype, bytes) = checkpoint::encode(FloatType::F16, values);
            tensors.push((source.name.clone(), writer::Tensor::Made { dtype, shape, bytes }));
        }
    }
    fs::create_dir_all(to).unwrap();
    safetensors::serialize_to_file(tensors, None, &to.join("model.safetensors")).unwrap();
    fs::copy(from.join("tokenizer.json"), to.join("tokenizer.json")).unwrap();
    let mut config: Value =
        serde_json::from_slice(&fs::read(from.join("config.json")).unwrap()).unwrap();
    config.as_object_mut().unwrap().remove("quantization_config");
    config["num_hidden_layers"] = LAYERS.into();
    fs::write(to.join("config.json"), config.to_string()).unwrap();
}

/// Conversations like those the built-in model was trained on, and prose.
fn write_text(to: &Path) {
    let json = fs::read(folder("embedded.json")).unwrap();
    let chats: Vec<Value> = serde_json::from_slice(&json).unwrap();
    let chat = |chat: &Value| {
        let text = |field: &str| chat[field].as_str().unwrap().to_owned();
        text("prompt") + &text("answer") + "<|im_end|>\n"
    };
    let card = format!("{}/www/model/README.md", env!("CARGO_MANIFEST_DIR"));
    let chats: String = chats.iter().map(chat).collect();
    fs::write(to, fs::read_to_string(card).unwrap() + &chats).unwrap();
}

#[test]
fn calibrated_methods_beat_round_to_nearest() {
    let scratch = Scratch::new("methods");
    let (model, text) = (scratch.join("model"), scratch.join("text.txt"));
    in_16_bits(&model);
    write_text(&text);
    let quantise = |method: &str| -> Report {
        let text = text.display();
        let rest = format!(
            "--group 64 --method {method} --calibration {text} --tokens 512 --held-out 128 \
             --sequence 128"
        );
        let out = scratch.join(method);
        let report = run(&arguments(&model, &out, &rest)).expect(method);
        println!("{method}\n{report}");
        assert!(out.join("tokenizer.json").exists());
        report
    };
    let [rtn, gptq, awq] = ["rtn", "gptq", "awq"].map(quantise);
    for report in [&rtn, &gptq, &awq] {
        let comparison = report.comparison.unwrap();
        assert!(comparison.nmse < 0.05, "{report}");
        assert!(report.bytes[1] < report.bytes[0], "{report}");
    }
    let outputs = |report: &Report| report.mean().outputs.unwrap();
    assert!(outputs(&gptq) < 0.9 * outputs(&rtn));
    assert!(outputs(&awq) < outputs(&rtn));
    let divergence = |report: &Report| report.comparison.unwrap().divergence;
    assert!(divergence(&gptq) < divergence(&rtn));
}

#[test]
fn folders_hold_the_rounded_values_bit_for_bit() {
    let scratch = Scratch::new("bits");
    // Types, biases, norms of heads, shards, as many KV heads as query heads or fewer.
    let models = ["smollm2_bf16", "qwen2_bf16", "mistral_f16", "llama_sharded_f32", "qwen3_f32"];
    let formats = [(4, false), (4, true), (8, true)];
    for (name, (bits, symmetric)) in models.into_iter().zip(formats.into_iter().cycle()) {
        for method in [Method::Rtn, Method::Gptq, Method::Awq] {
            let (from, golden) = (PathBuf::from(folder(name)), golden(name));
            let checkpoint = Checkpoint::open(&from).unwrap();
            let spec = format!("{name} {method:?} {bits} {symmetric}");
            let scales = checkpoint.float("model.layers.0.mlp.up_proj.weight").unwrap();
            let format = Format { bits, group: 32, symmetric, scales };
            let text = [golden.tokens.clone()];
            let model = Model::load(&from).unwrap();
            let quantised =
                quantiser::quantise(model, &checkpoint, &format, method, &text).unwrap();

            let to = scratch.join(&spec.replace(' ', "-"));
            fs::create_dir_all(&to).unwrap();
            let shard_bytes = if method == Method::Gptq { 20_000 } else { 5 << 30 };
            writer::write(&quantised, &format, &checkpoint, [&from, &to], shard_bytes).unwrap();
            assert_eq!(to.join("model.safetensors").exists(), method != Method::Gptq);
            let loaded = Model::load(&to).unwrap();
            assert!(loaded.weights == quantised.model.weights, "{spec}");

            let original = Model::load(&from).unwrap();
            let comparison = evaluate::compare(original, loaded, &text).unwrap();
            println!("{spec}: NMSE {:.1e}", comparison.nmse);
            // Random weights in groups of 32; wrong ones would differ by 1 and more.
            assert!(comparison.nmse < if bits == 8 { 1e-3 } else { 0.2 }, "{spec}");
        }
    }
}

#[test]
fn scaled_columns_do_not_change_the_result() {
    // Norms before, after and around blocks, stored minus one, shared by fused modules; biases.
    let models = [
        "smollm2_bf16",
        "qwen2_bf16",
        "phi3_long_bf16",
        "olmo2_f32",
        "gemma2_bf16",
        "gemma3_images_bf16",
        "granite_f32",
    ];
    for name in models {
        let (from, text) = (PathBuf::from(folder(name)), [golden(name).tokens]);
        let checkpoint = Checkpoint::open(&from).unwrap();
        let format = Format { bits: 4, group: 32, symmetric: false, scales: FloatType::F16 };
        let model = Model::load(&from).unwrap();
        let (model, changed) = quantiser::equalise(model, &checkpoint, &format, &text).unwrap();
        let original = Model::load(&from).unwrap();
        let is_equal = |(param, parts): (_, &Vec<HostMatrix>)| {
            let [a, b] = [&original.weights.matrices[param], parts].map(|parts| Dense::of(parts));
            a.values == b.values
        };
        let equal = model.weights.matrices.iter().filter(|matrix| is_equal(*matrix)).count();
        // Embeddings stay unchanged, and so does what no exponent improves.
        assert!(equal <= 3, "{name}: {equal} matrices have not changed");
        assert_eq!(changed.is_empty(), name == "olmo2_f32", "{name}");
        let comparison = evaluate::compare(original, model, &text).unwrap();
        println!("{name}: NMSE {:.1e}", comparison.nmse);
        assert!(comparison.nmse < 1e-5, "{name}: {:.2e}", comparison.nmse);
    }
}

/// Correlated rows of x, and a matrix.
fn random_product(seed: u64, n: usize, k: usize) -> (Vec<f32>, Dense) {
    let rng = &mut fastrand::Rng::with_seed(seed);
    let (mixing, noise) = (uniform(rng, k * 8), uniform(rng, 300 * k));
    let hidden = uniform(rng, 300 * 8);
    let x = (0..300 * k).map(|at| {
        let (row, column) = (at / k, at % k);
        let mix = (0..8).map(|i| hidden[row * 8 + i] * mixing[i * k + column]);
        mix.sum::<f32>() + 0.3 * noise[at] * (1.0 + (column % 5) as f32)
    });
    (x.collect(), Dense { n, k, values: uniform(rng, n * k) })
}

#[test]
fn gram_matrices_give_the_output_error_of_changed_weights() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let (x, matrix) = random_product(seed, 11, 96);
    let found: Vec<f32> =
        Gram::of(&x, matrix.k).energies(&matrix).into_iter().map(|energy| energy as f32).collect();
    let expected = matrix.values.chunks(matrix.k).map(|row| {
        let output = |x: &[f32]| x.iter().zip(row).map(|(x, w)| f64::from(x * w)).sum::<f64>();
        let outputs = x.chunks(matrix.k).map(output);
        (outputs.map(|y| y * y).sum::<f64>() * matrix.k as f64 / x.len() as f64) as f32
    });
    assert!(nmse(&expected.collect::<Vec<_>>(), &found) < 1e-10);
}

/// GPTQ as in its paper, with the Cholesky factor U of H⁻¹ = Uᵀ U, in f64.
fn by_the_paper(format: &Format, matrix: &Dense, x: &[f32]) -> Vec<f32> {
    let k = matrix.k;
    let mut h = vec![vec![0.0; k]; k];
    for x in x.chunks(k) {
        for (h, a) in h.iter_mut().zip(x) {
            h.iter_mut().zip(x).for_each(|(h, b)| *h += f64::from(*a) * f64::from(*b));
        }
    }
    let damping = 0.01 * (0..k).map(|i| h[i][i]).sum::<f64>() / k as f64;
    (0..k).for_each(|i| h[i][i] += damping);
    // Row i of U is row i of H⁻¹ after elimination of the columns before.
    let mut inverse = inverted(h);
    let mut weights: Vec<f64> = matrix.values.iter().copied().map(f64::from).collect();
    let mut pairs = vec![0; matrix.n * k / format.group];
    for i in 0..k {
        let row: Vec<f64> = inverse[i].iter().map(|u| u / inverse[i][i].sqrt()).collect();
        for (n, weights) in weights.chunks_exact_mut(k).enumerate() {
            let place = n * k / format.group + i / format.group;
            if i.is_multiple_of(format.group) {
                let group: Vec<f32> =
                    weights[i..i + format.group].iter().map(|w| *w as f32).collect();
                pairs[place] = format.fit(&group).pair;
            }
            let [scale, min] = unpack_halves(pairs[place]).map(f64::from);
            let q = ((weights[i] - min) / scale).round_ties_even().clamp(0.0, 15.0);
            let error = (weights[i] - (scale * q + min)) / row[i];
            weights[i] = scale * q + min;
            (i + 1..k).for_each(|j| weights[j] -= error * row[j]);
        }
        for j in i + 1..k {
            let factor = inverse[j][i] / inverse[i][i];
            (0..k).for_each(|c| inverse[j][c] -= factor * inverse[i][c]);
        }
    }
    weights.into_iter().map(|weight| weight as f32).collect()
}

/// Gauss-Jordan elimination of a positive definite matrix.
fn inverted(mut h: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let k = h.len();
    for (i, row) in h.iter_mut().enumerate() {
        row.extend((0..k).map(|j| f64::from(u8::from(i == j))));
    }
    for i in 0..k {
        let pivot: Vec<f64> = h[i].iter().map(|value| value / h[i][i]).collect();
        for (j, row) in h.iter_mut().enumerate() {
            let factor = if i == j { 0.0 } else { row[i] };
            row.iter_mut().zip(&pivot).for_each(|(value, pivot)| *value -= factor * pivot);
        }
        h[i] = pivot;
    }
    h.into_iter().map(|row| row[k..].to_vec()).collect()
}

#[test]
fn gptq_chooses_the_codes_of_its_paper() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let (x, matrix) = random_product(seed, 19, 160);
    let format = Format { bits: 4, group: 32, symmetric: false, scales: FloatType::F16 };
    let gram = Gram::of(&x, matrix.k);
    let found = Dense::of(&[gptq::quantise(&format, &matrix, &gram)]);
    let expected = by_the_paper(&format, &matrix, &x);
    // A sum close to a tie may be rounded otherwise, and then the rest of its row differs.
    let is_equal = |range: &Range<usize>| {
        let pairs = found.values[range.clone()].iter().zip(&expected[range.clone()]);
        pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-3)
    };
    let rows = (0..matrix.n).map(|row| row * matrix.k..(row + 1) * matrix.k);
    let equal = rows.filter(is_equal).count();
    println!("{equal} of {} rows", matrix.n);
    assert!(equal + 3 >= matrix.n);

    let nearest = Dense::of(&[rtn::quantise(&format, &matrix)]);
    let error =
        |rounded: &Dense| -> f64 { gram.energies(&matrix.difference(rounded)).into_iter().sum() };
    assert!(error(&found) < 0.8 * error(&nearest));
}

#[test]
fn errors_say_why_something_cannot_be_quantised() {
    let scratch = Scratch::new("refused");
    let (out, full) = (scratch.join("out"), scratch.join("full"));
    fs::create_dir_all(&full).unwrap();
    fs::write(full.join("file"), "").unwrap();
    let (short, text) = (scratch.join("short.txt"), scratch.join("text.txt"));
    fs::write(&short, "Once upon a time").unwrap();
    write_text(&text);
    let model = scratch.join("model");
    in_16_bits(&model);
    let [golden, gpt2] = ["smollm2_bf16", "gpt2_f32"].map(|name| PathBuf::from(folder(name)));
    let built_in = PathBuf::from(format!("{}/www/model", env!("CARGO_MANIFEST_DIR")));
    let float8 = PathBuf::from(folder("formats/fp8_tensor_bf16"));
    let (text, short) = (text.display(), short.display());
    let cases = [
        (&golden, &full, String::new(), "is not empty"),
        (&built_in, &out, String::new(), "is quantised already"),
        (&float8, &out, String::new(), "is quantised already"),
        (&golden, &out, "--group 128".into(), "64 columns, which groups of 128 do not divide"),
        (&gpt2, &out, String::new(), "is stored by columns"),
        (&golden, &out, "--method gptq".into(), "needs a text: --calibration FILE"),
        (&golden, &out, format!("--calibration {text}"), "tokenizer.json, which a text needs"),
        (&model, &out, "--calibration nowhere.txt".into(), "cannot read the text nowhere.txt"),
        (&model, &out, format!("--calibration {short}"), "too few to calibrate with"),
        (&model, &out, format!("--calibration {text} --sequence 4"), "--sequence 4 is too short"),
        (&scratch.0, &out, String::new(), "cannot read config.json"),
    ];
    for (model, out, rest, expected) in cases {
        let refused = run(&arguments(model, out, &rest)).err().expect(expected);
        assert!(format!("{refused:#}").contains(expected), "{refused:#}");
    }
    assert!(!out.exists(), "nothing is written before all is checked");
    for rest in ["--bits 3", "--group 48", "--method nf4"] {
        let words = ["quantize", "--model", "a", "--out", "b"];
        let words = words.into_iter().chain(rest.split_whitespace());
        assert!(Arguments::try_parse_from(words).is_err(), "{rest}");
    }
}

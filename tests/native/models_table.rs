//! Checks `docs/models.md`: it must list all supported formats, the memory that the load plan computes
//! for the configurations in `docs/models.json`, which have the sizes of the published models, and the
//! models by name, whose configurations in `docs/published.json` are read as a load reads them.

use serde_json::{Map, Value, json};
use tabloom::Error;
use tabloom::executor::{KvKind, block_bytes};
use tabloom::layout::{BlockType, Layout};
use tabloom::load::{LoadOptions, capacity, quantise_all};
use tabloom::model::{ModelConfig, ParamSpec, Shape};
use tabloom::weights::Dtype;
use tabloom::weights::{Elements, Header, LoadPlan, Quantise, TensorInfo};

const GUIDE: &str = include_str!("../../docs/models.md");
const CONFIGS: &str = include_str!("../../docs/models.json");
/// The fields of published files that decide what a model computes; LongRoPE's factors are not theirs.
const PUBLISHED: &str = include_str!("../../docs/published.json");
const HEADING: &str = "| Model | Parameters | As published, 16 bits | `w8` | `w4` \
                       | Keys and values of 1024 tokens | of 32,768 | By default \
                       | `w4` in all |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";

/// A checkpoint in bf16 whose tensors fill `params`.
fn header(params: &[ParamSpec]) -> Header {
    let mut header = Header { tensors: Vec::new(), end: 0 };
    for spec in params {
        for source in &spec.sources {
            let rows = source.rows as u64;
            let shape = match spec.shape {
                Shape::Vector { .. } => vec![rows],
                Shape::Matrix { k, .. } => vec![rows, k as u64],
            };
            let bytes = 2 * shape.iter().product::<u64>();
            let elements = Elements::Plain(Dtype::Bf16);
            let name = source.name.clone();
            header.tensors.push(TensorInfo { name, elements, shape, start: header.end, bytes });
            header.end += bytes;
        }
    }
    header
}

fn row(name: &str, config: &Value) -> String {
    let config = ModelConfig::from_json(config.to_string().as_bytes()).unwrap();
    let header = header(&config.params());
    let weights = |quantise| LoadPlan::new(&config, None, &quantise, &[&header]).unwrap().bytes();
    let [kept, w8, w4] = [
        Quantise::KEEP,
        quantise_all(Layout::W8 { group: 32 }),
        quantise_all(Layout::W4 { group: 32 }),
    ]
    .map(weights);

    let kinds = vec![KvKind::F16; config.layers];
    let capacity = capacity(&config, &LoadOptions::default(), &kinds, u64::MAX).unwrap();
    let block = block_bytes(&config, &kinds, capacity.groups);
    let [short, long] = [1024, 32_768].map(|tokens| capacity.blocks_of(tokens));
    let [short, long, kv] = [short, long, capacity.blocks].map(|blocks| blocks as u64 * block);

    let parameters = header.end / 2;
    let parameters = match parameters as f64 / 1e6 {
        millions @ ..999.5 => format!("{millions:.0} M"),
        millions => format!("{:.2} B", millions / 1e3),
    };
    let long = if config.context < 32_768 { "–".into() } else { size(long) };
    let [kept, w8, w4, short, kv, all] = [kept, w8, w4, short, kv, w4 + kv].map(size);
    let cells = [kept, w8, w4, short, long, kv, all];
    format!("| {name} | {parameters} | {} |\n", cells.join(" | "))
}

/// In units of 2^20 or 2^30 bytes.
fn size(bytes: u64) -> String {
    match bytes as f64 / (1u64 << 20) as f64 {
        mib @ ..1000.0 => format!("{mib:.0} MiB"),
        mib => format!("{:.2} GiB", mib / 1024.0),
    }
}

#[test]
fn the_table_equals_the_load_plans() {
    let configs: Map<String, Value> = serde_json::from_str(CONFIGS).unwrap();
    let rows: String = configs.iter().map(|(name, config)| row(name, config)).collect();
    let table = format!("{HEADING}{rows}");
    assert!(GUIDE.contains(&table), "docs/models.md lacks this table:\n\n{table}");
}

/// The GGUF names of the architectures of folders.
const IN_GGUF: [(&str, &str); 9] = [
    ("LlamaForCausalLM", "llama"),
    ("MistralForCausalLM", "llama"),
    ("Qwen2ForCausalLM", "qwen2"),
    ("Qwen3ForCausalLM", "qwen3"),
    ("SmolLM3ForCausalLM", "smollm3"),
    ("Phi3ForCausalLM", "phi3"),
    ("GraniteForCausalLM", "granite"),
    ("Olmo2ForCausalLM", "olmo2"),
    ("Gemma3ForCausalLM", "gemma3"),
];

#[test]
fn published_models_are_named_and_their_configurations_are_read() {
    let published: Map<String, Value> = serde_json::from_str(PUBLISHED).unwrap();
    let mut table = String::from(
        "| Published as | In `config.json` | In GGUF files | Context |\n|---|---|---|---:|\n",
    );
    for (name, config) in &published {
        let read = match name.strip_suffix(" (GGUF)") {
            None => ModelConfig::from_json(config.to_string().as_bytes()),
            Some(_) => {
                let metadata = config.as_object().unwrap();
                let embedding = ["vocab_size", "embedding_length"]
                    .map(|size| metadata[&format!("granite.{size}")].as_u64().unwrap());
                ModelConfig::from_gguf(name, metadata, |tensor| {
                    (tensor == "token_embd.weight").then_some(&embedding[..])
                })
            }
        };
        let ModelConfig { architecture, context, .. } = read.expect(name);
        let known = IN_GGUF.iter().find(|(folder, _)| *folder == architecture);
        let (folder, gguf) = match known {
            Some((folder, gguf)) => (format!("`{folder}`"), gguf.to_string()),
            None => (String::new(), architecture),
        };
        let name = name.trim_end_matches(" (GGUF)");
        table.push_str(&format!("| {name} | {folder} | `{gguf}` | {context} |\n"));
    }
    assert!(GUIDE.contains(&table), "docs/models.md lacks this table:\n\n{table}");
}

#[test]
fn all_architectures_and_block_types_are_named() {
    let supported = |error: Error| match error {
        Error::UnsupportedArchitecture { supported, .. } => supported,
        error => panic!("{error}"),
    };
    let nobody = json!({"architectures": ["nobody"], "general.architecture": "nobody"});
    let folder = ModelConfig::from_json(nobody.to_string().as_bytes()).unwrap_err();
    let gguf = ModelConfig::from_gguf("x.gguf", nobody.as_object().unwrap(), |_| None).unwrap_err();
    let names = [folder, gguf].map(supported).join(", ");
    let blocks = BlockType::READABLE.map(|block| block.to_string());
    let named: Vec<&str> = names.split(", ").chain(blocks.iter().map(String::as_str)).collect();
    assert!(named.len() > 30);
    for name in named {
        assert!(GUIDE.contains(&format!("`{name}`")), "docs/models.md does not name `{name}`");
    }
}

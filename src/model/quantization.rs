//! Storage format of a quantised checkpoint, from `config.json`.

use super::json::Fields;
use crate::error::Result;
use serde_json::json;

/// The format of a quantised checkpoint.
///
/// The checkpoint's tensors show which matrices are quantised, and mostly how many bits and columns per
/// scale they have. So lists of targets and ignored modules are not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantization {
    /// Modules in any of its formats that are supported.
    CompressedTensors {
        /// No group leaves them out.
        zero_points: bool,
    },
    /// AutoAWQ's "gemm".
    AwqGemm,
    /// AutoAWQ's "gemv" with a group size of `group` columns: 32, 64 or 128.
    AwqGemv {
        group: usize,
    },
    Gptq(Gptq),
    /// MLX, affine.
    Mlx,
    /// MXFP4 of gpt-oss.
    Mxfp4,
    /// E4M3 with scales.
    Float8,
    /// LLM.int8() of bitsandbytes.
    LlmInt8,
    /// NF4 or FP4 of bitsandbytes.
    Nf4,
    /// HQQ with groups along the columns.
    Hqq,
    /// torchao's plain int4.
    TorchAo,
}

/// A version of GPTQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gptq {
    /// Zero points are stored minus one, as in the first version of the format.
    pub wraps: bool,
    /// Zero points are 8; the stored ones are ignored.
    pub symmetric: bool,
    /// Columns are assigned to groups in any order (act-order).
    pub ordered: bool,
}

const METHODS: &str = "\"compressed-tensors\", \"awq\", \"gptq\", \"fp8\", \"bitsandbytes\", \"mxfp4\", \"hqq\", \"torchao\" or MLX's: take the model in one of them, in 16 bits or as a GGUF file";

impl Quantization {
    /// Reads `config.json`; `None` if the checkpoint is not quantised.
    pub fn from_json(bytes: &[u8]) -> Result<Option<Quantization>> {
        let config = Fields::parse("config.json", bytes)?;
        let fields = config.object("quantization_config")?;
        // MLX writes an object of its own, and mostly a copy under the usual name.
        let mlx = config.object("quantization")?;
        match (fields, mlx) {
            (Some(fields), _) if fields.has("quant_method") => {
                Quantization::from_fields(&fields).map(Some)
            }
            (_, Some(fields)) => mlx_of(&fields).map(Some),
            (Some(fields), None) => Err(fields.invalid("quant_method", METHODS)),
            (None, None) => Ok(None),
        }
    }

    fn from_fields(fields: &Fields) -> Result<Quantization> {
        match fields.text("quant_method")? {
            Some("compressed-tensors") => {
                let zero_points = expect_groups(fields)?;
                Ok(Quantization::CompressedTensors { zero_points })
            }
            Some("awq") => awq_of(fields),
            Some("gptq") => gptq_of(fields),
            Some("fp8") => {
                let blocks = [json!([128, 128])];
                fields.require("weight_block_size", &blocks, "[128, 128]")?;
                Ok(Quantization::Float8)
            }
            Some("bitsandbytes") => {
                match (fields.flag("load_in_4bit")?, fields.flag("load_in_8bit")?) {
                    (true, false) => Ok(Quantization::Nf4),
                    (false, true) => Ok(Quantization::LlmInt8),
                    _ => Err(fields.invalid("load_in_4bit", "true, unless load_in_8bit is")),
                }
            }
            Some("mxfp4") => Ok(Quantization::Mxfp4),
            Some("hqq") => hqq_of(fields),
            Some("torchao") => torchao_of(fields),
            _ => Err(fields.invalid("quant_method", METHODS)),
        }
    }
}

fn hqq_of(fields: &Fields) -> Result<Quantization> {
    if let Some(config) = fields.object("quant_config")?
        && let Some(weights) = config.object("weight_quant_params")?
    {
        weights.require("nbits", &[json!(4)], "4")?;
        weights.require("axis", &[json!(1)], "1: groups along the columns")?;
    }
    Ok(Quantization::Hqq)
}

fn torchao_of(fields: &Fields) -> Result<Quantization> {
    let kind = fields.object("quant_type")?;
    let config = kind.as_ref().map(|kind| kind.object("default")).transpose()?.flatten();
    let config = config.ok_or_else(|| fields.invalid("quant_type", "Int4WeightOnlyConfig"))?;
    config.require("_type", &[json!("Int4WeightOnlyConfig")], "\"Int4WeightOnlyConfig\"")?;
    if let Some(data) = config.object("_data")?
        && let Some(packing) = data.object("int4_packing_format")?
    {
        let plain = [json!("PLAIN"), json!("plain")];
        packing.require("_data", &plain, "\"PLAIN\"")?;
    }
    Ok(Quantization::TorchAo)
}

fn mlx_of(fields: &Fields) -> Result<Quantization> {
    fields.require("bits", &[json!(4), json!(8)], "4 or 8")?;
    fields.require("mode", &[json!("affine")], "\"affine\"")?;
    Ok(Quantization::Mlx)
}

fn awq_of(fields: &Fields) -> Result<Quantization> {
    let [bits, group] = match fields.has("w_bit") {
        true => ["w_bit", "q_group_size"],
        false => ["bits", "group_size"],
    };
    fields.count(bits, 4..=4)?;
    match fields.text("version")?.map(str::to_lowercase).as_deref() {
        None | Some("gemm") => Ok(Quantization::AwqGemm),
        Some("gemv") => Ok(Quantization::AwqGemv { group: group_size(fields, group)? }),
        _ => Err(fields.invalid("version", "\"gemm\" or \"gemv\"")),
    }
}

fn gptq_of(fields: &Fields) -> Result<Quantization> {
    let wraps = match fields.text("checkpoint_format")? {
        None | Some("gptq") => true,
        Some("gptq_v2") => false,
        _ => return Err(fields.invalid("checkpoint_format", "\"gptq\" or \"gptq_v2\"")),
    };
    let (symmetric, ordered) = (fields.flag("sym")?, fields.flag("desc_act")?);
    expect_gptq_bits(fields, fields, symmetric, ordered)?;
    // Rules for modules by name; of those that are not quantised, the tensors show.
    let rules = fields.object("dynamic")?;
    for (rules, name) in rules.iter().flat_map(|rules| rules.names().map(move |name| (rules, name)))
    {
        if let Some(rule) = rules.object(name)?.filter(|_| !name.starts_with("-:")) {
            let same = "the same for all modules";
            rule.require("sym", &[json!(symmetric)], same)?;
            rule.require("desc_act", &[json!(ordered)], same)?;
            expect_gptq_bits(&rule, fields, symmetric, ordered)?;
        }
    }
    Ok(Quantization::Gptq(Gptq { wraps, symmetric, ordered }))
}

/// Refuses numbers of bits, in the fields of a file or a rule, that do not go with those of the file.
fn expect_gptq_bits(fields: &Fields, file: &Fields, symmetric: bool, ordered: bool) -> Result<()> {
    fields.require("bits", &[json!(4), json!(8)], "4 or 8")?;
    if fields.get("bits") == Some(&json!(8)) && (!symmetric || ordered) {
        let field = if symmetric { "desc_act" } else { "sym" };
        return Err(file.invalid(field, format!("{} for 8 bits", !symmetric)));
    }
    Ok(())
}

fn group_size(fields: &Fields, field: &str) -> Result<usize> {
    match fields.count(field, 32..=128)? {
        group @ (32 | 64 | 128) => Ok(group),
        _ => Err(fields.invalid(field, "32, 64 or 128")),
    }
}

/// Refuses groups of compressed-tensors whose weights are in a format that is not supported. Returns
/// whether all of them have zero points.
fn expect_groups(fields: &Fields) -> Result<bool> {
    // Features that change the weights beyond quantisation are refused, unless empty.
    for feature in ["sparsity_config", "transform_config"] {
        if fields.object(feature)?.is_some_and(|object| object.names().next().is_some()) {
            return Err(fields.invalid(feature, "absent: it is not supported"));
        }
    }
    let groups = fields.object("config_groups")?;
    let groups = groups.filter(|groups| groups.names().next().is_some());
    let groups = groups.ok_or_else(|| fields.invalid("config_groups", "at least one group"))?;
    let mut zero_points = true;
    for name in groups.names() {
        let group = groups.object(name)?;
        let group = group.ok_or_else(|| groups.invalid(name, "an object"))?;
        let holder = if group.get("format").is_some() { &group } else { fields };
        let weights = group.object("weights")?;
        let weights = weights.ok_or_else(|| group.invalid("weights", "an object"))?;
        let is_float = weights.get("type") == Some(&json!("float"));
        match holder.text("format")? {
            Some("pack-quantized") => expect_packed(&weights)?,
            Some("int-quantized") => expect_int8(&weights)?,
            Some("float-quantized") => expect_float8(&weights)?,
            Some("mxfp4-pack-quantized") => {}
            // Not said of each group: its numbers say it.
            Some("naive-quantized" | "mixed-precision") if is_float => expect_float8(&weights)?,
            Some("naive-quantized") => expect_int8(&weights)?,
            Some("mixed-precision") => expect_packed(&weights)?,
            _ => {
                let formats = "\"pack-quantized\", \"int-quantized\", \"float-quantized\", \
                               \"naive-quantized\" or \"mxfp4-pack-quantized\"";
                return Err(holder.invalid("format", formats));
            }
        }
        zero_points &= weights.get("symmetric").is_some() && !weights.flag("symmetric")?;
    }
    Ok(zero_points)
}

fn expect_packed(fields: &Fields) -> Result<()> {
    if fields.get("num_bits") == Some(&json!(8)) {
        return expect_int8(fields);
    }
    fields.require("num_bits", &[json!(4)], "4 or 8")?;
    fields.require("type", &[json!("int")], "\"int\"")?;
    match fields.text("strategy")? {
        Some("channel") => Ok(()),
        Some("group") => group_size(fields, "group_size").map(|_| ()),
        _ => Err(fields.invalid("strategy", "\"group\" or \"channel\"")),
    }
}

fn expect_int8(fields: &Fields) -> Result<()> {
    fields.count("num_bits", 8..=8)?;
    fields.require("type", &[json!("int")], "\"int\"")?;
    fields.require("symmetric", &[json!(true)], "true for 8 bits")
}

fn expect_float8(fields: &Fields) -> Result<()> {
    fields.count("num_bits", 8..=8)?;
    fields.require("type", &[json!("float")], "\"float\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use serde_json::Value;

    fn config(weights: Value) -> Value {
        json!({"quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "config_groups": {"group_0": {
                "targets": ["Linear"],
                "input_activations": null,
                "output_activations": null,
                "weights": weights,
            }},
            "ignore": ["lm_head", "re:.*layers\\.0\\..*"],
            "sparsity_config": {},
            "transform_config": {},
        }})
    }

    fn read(config: &Value) -> Result<Option<Quantization>> {
        Quantization::from_json(config.to_string().as_bytes())
    }

    #[test]
    fn groups_may_differ_in_format() {
        assert_eq!(read(&json!({"vocab_size": 1})), Ok(None));
        let group = json!({"num_bits": 4, "type": "int", "symmetric": true, "strategy": "group",
            "group_size": 128, "actorder": "static", "dynamic": false});
        let channel = json!({"num_bits": 4, "type": "int", "symmetric": false,
            "strategy": "channel", "group_size": null});
        let float = json!({"num_bits": 8, "type": "float", "symmetric": true,
            "strategy": "channel"});
        let all = [&group, &channel, &float];
        let found = |zero_points| Ok(Some(Quantization::CompressedTensors { zero_points }));
        assert_eq!(read(&config(group.clone())), found(false));
        assert_eq!(read(&config(channel.clone())), found(true));
        let expected = found(false);
        let mixed = |formats: [Value; 3]| {
            let mut mixed = config(Value::Null);
            let fields = &mut mixed["quantization_config"];
            fields["format"] = json!("mixed-precision");
            fields["config_groups"] = json!({});
            for (i, (weights, format)) in all.into_iter().zip(formats).enumerate() {
                let targets = [format!("re:.*layers\\.{i}\\..*")];
                fields["config_groups"][format!("group_{i}")] =
                    json!({"targets": targets, "weights": weights, "format": format});
            }
            read(&mixed)
        };
        let formats = ["pack-quantized", "pack-quantized", "float-quantized"];
        assert_eq!(mixed(formats.map(Value::from)), expected);
        assert_eq!(mixed([Value::Null, Value::Null, Value::Null]), expected);
        let error =
            mixed(["pack-quantized", "nvfp4-pack-quantized", "float-quantized"].map(Value::from));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("config_groups.group_1.format is \"nvfp4"), "{error}");
    }

    #[test]
    fn errors_name_what_is_not_supported() {
        let good = || {
            config(json!({"num_bits": 4, "type": "int", "symmetric": true, "strategy": "group",
                "group_size": 32}))
        };
        let root = "/quantization_config";
        let group = "/quantization_config/config_groups/group_0";
        let weights = "/quantization_config/config_groups/group_0/weights";
        for (object, field, value) in [
            (root, "quant_method", json!("aqlm")),
            (root, "format", json!("nvfp4-pack-quantized")),
            (root, "sparsity_config", json!({"format": "sparse-24-bitmask"})),
            (root, "transform_config", json!({"config_groups": {"u": {}}})),
            (root, "config_groups", json!({})),
            (group, "format", json!("marlin-24")),
            (group, "weights", Value::Null),
            (weights, "num_bits", json!(3)),
            (weights, "type", json!("float")),
            (weights, "strategy", json!("tensor")),
            (weights, "group_size", json!(48)),
            (weights, "group_size", json!(1024)),
        ] {
            let mut config = good();
            assert!(read(&config).is_ok());
            config.pointer_mut(object).unwrap()[field] = value.clone();
            let error = read(&config).unwrap_err();
            let path = format!("{object}/{field}").replace('/', ".");
            match error {
                Error::InvalidConfig { field, found, .. } => {
                    assert_eq!(field, path[1..], "{value}");
                    assert_eq!(found, value.to_string());
                }
                other => panic!("{path} = {value}: {other}"),
            }
        }
    }

    #[test]
    fn gptq_has_4_bits_or_8_without_zero_points() {
        let with_rules = |bits, sym, desc_act, rules: Value| {
            read(&json!({"quantization_config": {"quant_method": "gptq", "bits": bits,
                "group_size": 128, "sym": sym, "desc_act": desc_act, "dynamic": rules}}))
        };
        let gptq = |bits, sym, desc_act| with_rules(bits, sym, desc_act, Value::Null);
        let expected = |symmetric, ordered| {
            let version = Gptq { wraps: true, symmetric, ordered };
            Ok(Some(Quantization::Gptq(version)))
        };
        assert_eq!(gptq(4, false, true), expected(false, true));
        assert_eq!(gptq(8, true, false), expected(true, false));
        let rules = json!({"-:.*q_proj": {}, "+:.*down.*": {"bits": 8, "group_size": 32}});
        assert_eq!(with_rules(4, true, false, rules.clone()), expected(true, false));
        let error = with_rules(4, false, false, rules).unwrap_err().to_string();
        assert!(error.contains("sym is false, expected true for 8 bits"), "{error}");
        let error = with_rules(4, true, false, json!({".*up.*": {"bits": 3}})).unwrap_err();
        assert!(error.to_string().contains("dynamic..*up.*.bits is 3"), "{error}");
        for (bits, sym, desc_act, named) in
            [(3, true, false, "bits"), (8, false, false, "sym"), (8, true, true, "desc_act")]
        {
            match gptq(bits, sym, desc_act) {
                Err(Error::InvalidConfig { field, .. }) => {
                    assert_eq!(field, format!("quantization_config.{named}"));
                }
                other => panic!("{bits} {sym} {desc_act}: {other:?}"),
            }
        }
    }
}

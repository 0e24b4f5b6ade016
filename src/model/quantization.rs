//! How the matrices of a quantised checkpoint are stored, from `quantization_config` in `config.json`.

use super::json::Fields;
use crate::error::Result;
use serde_json::json;

/// The int4 weights of a compressed-tensors checkpoint in the format `pack-quantized`.
///
/// Which matrices are quantised shows in the checkpoint's tensors, so the lists
/// of targets and of ignored modules are not needed.
/// Format: <https://github.com/vllm-project/compressed-tensors>.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantization {
    /// Columns that share a scale; `None` if a whole row does.
    pub group: Option<usize>,
    /// The zero point is 8 everywhere; else it is stored.
    pub symmetric: bool,
}

impl Quantization {
    /// Reads `config.json`; `None` if the checkpoint is not quantised.
    pub fn from_json(bytes: &[u8]) -> Result<Option<Quantization>> {
        match Fields::parse("config.json", bytes)?.object("quantization_config")? {
            Some(fields) => Quantization::from_fields(&fields).map(Some),
            None => Ok(None),
        }
    }

    fn from_fields(fields: &Fields) -> Result<Quantization> {
        if fields.text("quant_method")? != Some("compressed-tensors") {
            return Err(fields.invalid("quant_method", "\"compressed-tensors\""));
        }
        let packed = [json!("pack-quantized")];
        fields.require("format", &packed, "\"pack-quantized\"")?;
        // What changes the weights or activations beyond int4 is refused, unless it is empty.
        for feature in ["sparsity_config", "transform_config"] {
            if fields.object(feature)?.is_some_and(|object| object.names().next().is_some()) {
                return Err(fields.invalid(feature, "absent: it is not supported"));
            }
        }
        let groups = fields.object("config_groups")?;
        let groups = groups.ok_or_else(|| fields.invalid("config_groups", "an object"))?;
        let mut found = None;
        for name in groups.names() {
            let group = groups.object(name)?;
            let group = group.ok_or_else(|| groups.invalid(name, "an object"))?;
            group.require("format", &packed, "\"pack-quantized\"")?;
            group.require("input_activations", &[], "null: only weights may be quantised")?;
            let weights = group.object("weights")?;
            let weights = weights.ok_or_else(|| group.invalid("weights", "an object"))?;
            let quantization = weights_of(&weights)?;
            if found.is_some_and(|found| found != quantization) {
                return Err(fields.invalid("config_groups", "the same format for all groups"));
            }
            found = Some(quantization);
        }
        found.ok_or_else(|| fields.invalid("config_groups", "at least one group"))
    }
}

fn weights_of(fields: &Fields) -> Result<Quantization> {
    fields.count("num_bits", 4..=4)?;
    fields.require("type", &[json!("int")], "\"int\"")?;
    let ordered = "null, \"weight\" or \"static\": columns in another order are not supported";
    fields.require("actorder", &[json!("weight"), json!("static"), json!(false)], ordered)?;
    let group = match fields.text("strategy")? {
        Some("channel") => None,
        Some("group") => {
            let group = fields.count("group_size", 32..=128)?;
            if ![32, 64, 128].contains(&group) {
                return Err(fields.invalid("group_size", "32, 64 or 128"));
            }
            Some(group)
        }
        _ => return Err(fields.invalid("strategy", "\"group\" or \"channel\"")),
    };
    let symmetric = fields.get("symmetric").is_none() || fields.flag("symmetric")?;
    Ok(Quantization { group, symmetric })
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
    fn group_and_channel_strategies_are_read() {
        assert_eq!(read(&json!({"vocab_size": 1})), Ok(None));
        let group = json!({"num_bits": 4, "type": "int", "symmetric": true, "strategy": "group",
            "group_size": 128, "actorder": "static", "dynamic": false});
        let expected = Quantization { group: Some(128), symmetric: true };
        assert_eq!(read(&config(group)), Ok(Some(expected)));
        let channel = json!({"num_bits": 4, "type": "int", "symmetric": false,
            "strategy": "channel", "group_size": null});
        let expected = Quantization { group: None, symmetric: false };
        assert_eq!(read(&config(channel)), Ok(Some(expected)));
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let good = || {
            config(json!({"num_bits": 4, "type": "int", "symmetric": true, "strategy": "group",
                "group_size": 32}))
        };
        let root = "/quantization_config";
        let group = "/quantization_config/config_groups/group_0";
        let weights = "/quantization_config/config_groups/group_0/weights";
        for (object, field, value) in [
            (root, "quant_method", json!("awq")),
            (root, "format", json!("nvfp4-pack-quantized")),
            (root, "sparsity_config", json!({"format": "sparse-24-bitmask"})),
            (root, "transform_config", json!({"config_groups": {"u": {}}})),
            (root, "config_groups", json!({})),
            (group, "format", json!("int-quantized")),
            (group, "input_activations", json!({"num_bits": 8})),
            (group, "weights", Value::Null),
            (weights, "num_bits", json!(8)),
            (weights, "type", json!("float")),
            (weights, "strategy", json!("tensor")),
            (weights, "group_size", json!(48)),
            (weights, "group_size", json!(1024)),
            (weights, "actorder", json!("group")),
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
}

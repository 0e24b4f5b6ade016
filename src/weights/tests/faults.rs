//! Bad checkpoints: each gives an error that names the cause.

use super::*;
use crate::layout::Layout;
use crate::model::Param;

/// A change to a good checkpoint, and a check of the error.
type Fault = (&'static str, fn(&mut MemorySource), fn(&Error) -> bool);

fn edit_tensors(source: &mut MemorySource, edit: impl FnOnce(&mut Vec<Stored>)) {
    let mut tensors = tiny_tensors();
    edit(&mut tensors);
    *source.file("model.safetensors") = serialized(&tensors);
}

fn edit_config(source: &mut MemorySource, field: &str, value: Value) {
    let mut config = tiny_config();
    config[field] = value;
    *source.file("config.json") = config.to_string().into_bytes();
}

fn says(error: &Error, words: &str) -> bool {
    error.to_string().contains(words)
}

const PAGE: &[u8] = b"<!DOCTYPE html><html><head><title>Not found</title></head></html>";

#[test]
fn bad_files_are_reported_before_any_weight_is_allocated() {
    let faults: [Fault; 16] = [
        (
            "no configuration",
            |source| drop(source.files.remove("config.json")),
            |error| matches!(error, Error::Fetch { what, .. } if what == "config.json"),
        ),
        (
            "a page instead of the configuration",
            |source| *source.file("config.json") = PAGE.to_vec(),
            |error| matches!(error, Error::Malformed { .. }) && says(error, "an HTML page"),
        ),
        (
            "no weights at all",
            |source| drop(source.files.remove("model.safetensors")),
            |error| matches!(error, Error::Fetch { what, .. } if what == "model.safetensors"),
        ),
        (
            "a page instead of the weights",
            |source| *source.file("model.safetensors") = PAGE.to_vec(),
            |error| matches!(error, Error::Malformed { .. }) && says(error, "an HTML page"),
        ),
        (
            "a pointer instead of the weights",
            |source| {
                *source.file("model.safetensors") =
                    b"version https://git-lfs.github.com/spec/v1\noid sha256:00".to_vec();
            },
            |error| matches!(error, Error::Malformed { .. }) && says(error, "Git LFS pointer"),
        ),
        (
            "an empty file",
            |source| source.file("model.safetensors").clear(),
            |error| matches!(error, Error::Truncated { expected: 8, found: 0, .. }),
        ),
        (
            "a header cut short",
            |source| source.file("model.safetensors").truncate(100),
            |error| matches!(error, Error::Truncated { found: 100, .. }),
        ),
        (
            "data cut short",
            |source| source.file("model.safetensors").truncate(4000),
            |error| matches!(error, Error::Truncated { found: 4000, .. }),
        ),
        (
            "data too long",
            |source| source.file("model.safetensors").push(0),
            |error| matches!(error, Error::Malformed { .. }) && says(error, "its tensors end at"),
        ),
        (
            "a tensor left out",
            |source| edit_tensors(source, |tensors| drop(tensors.remove(8))),
            |error| {
                let o_proj = "model.layers.0.self_attn.o_proj.weight";
                matches!(error, Error::MissingTensor { name } if name == o_proj)
            },
        ),
        (
            "a bias left out",
            |source| edit_tensors(source, |tensors| drop(tensors.remove(6))),
            |error| matches!(error, Error::MissingTensor { name } if name.ends_with("k_proj.bias")),
        ),
        (
            "a matrix turned round",
            |source| edit_tensors(source, |tensors| tensors[12].2.reverse()),
            |error| {
                matches!(error, Error::WrongTensor { .. })
                    && says(error, "is F32 [12, 20], expected F32 or F16 or BF16 [20, 12]")
            },
        ),
        (
            "integers instead of floats",
            |source| edit_tensors(source, |tensors| tensors[0].1 = Dtype::I32),
            |error| matches!(error, Error::WrongTensor { found, .. } if found == "I32 [11, 20]"),
        ),
        (
            "a configuration for another model",
            |source| edit_config(source, "vocab_size", json!(12)),
            |error| matches!(error, Error::WrongTensor { found, .. } if found == "F32 [11, 20]"),
        ),
        (
            "an output matrix that is not there",
            |source| edit_config(source, "tie_word_embeddings", json!(false)),
            |error| matches!(error, Error::MissingTensor { name } if name == "lm_head.weight"),
        ),
        (
            "int4 weights without a description",
            |source| {
                edit_tensors(source, |tensors| {
                    tensors[8] = (
                        "model.layers.0.self_attn.o_proj.weight_packed".into(),
                        Dtype::I32,
                        vec![20, 2],
                        vec![0; 160],
                    );
                });
            },
            |error| matches!(error, Error::InvalidConfig { field, .. } if field == "quantization_config"),
        ),
    ];
    for (name, spoil, expected) in faults {
        let mut source = tiny_source();
        spoil(&mut source);
        let error = load_observed(&source, &Quantise::KEEP, |_| panic!("{name}: weights are read"))
            .expect_err(name);
        assert!(expected(&error), "{name}: {error:?}");
    }
}

#[test]
fn a_stream_of_unknown_length_that_ends_early_or_late_is_noticed_at_its_end() {
    let mut source = MemorySource { tells_length: false, ..tiny_source() };
    let whole = source.files["model.safetensors"].len();
    source.file("model.safetensors").push(7);
    let error = load(&source, &Quantise::KEEP).unwrap_err();
    assert!(says(&error, "goes on after its last tensor"), "{error}");

    source.file("model.safetensors").truncate(whole - 1);
    let (what, expected, found) = ("model.safetensors".into(), whole as u64, whole as u64 - 1);
    assert_eq!(load(&source, &Quantise::KEEP), Err(Error::Truncated { what, expected, found }));
}

#[test]
fn bad_shards_are_reported() {
    let faults: [Fault; 7] = [
        (
            "a shard left out",
            |source| drop(source.files.remove("b.safetensors")),
            |error| matches!(error, Error::Fetch { what, .. } if what == "b.safetensors"),
        ),
        (
            "a page instead of a shard",
            |source| *source.file("b.safetensors") = PAGE.to_vec(),
            |error| matches!(error, Error::Malformed { what, .. } if what == "b.safetensors"),
        ),
        (
            "a shard cut short",
            |source| source.file("b.safetensors").truncate(3000),
            |error| matches!(error, Error::Truncated { what, .. } if what == "b.safetensors"),
        ),
        (
            "one shard twice",
            |source| *source.file("b.safetensors") = source.files["a.safetensors"].clone(),
            |error| matches!(error, Error::Malformed { .. }) && says(error, "two shards hold"),
        ),
        (
            "an index that leads out of the folder",
            |source| {
                *source.file("model.safetensors.index.json") =
                    json!({"weight_map": {"x": "../secret"}}).to_string().into_bytes();
            },
            |error| matches!(error, Error::InvalidConfig { found, .. } if found == "\"../secret\""),
        ),
        (
            "an index without a map",
            |source| *source.file("model.safetensors.index.json") = b"{}".to_vec(),
            |error| matches!(error, Error::InvalidConfig { field, .. } if field == "weight_map"),
        ),
        (
            "an index that is not JSON",
            |source| *source.file("model.safetensors.index.json") = b"{\"weight_map\"".to_vec(),
            |error| matches!(error, Error::Malformed { what, .. } if what.ends_with("index.json")),
        ),
    ];
    for (name, spoil, expected) in faults {
        let mut source = sharded_source();
        spoil(&mut source);
        let error = load_observed(&source, &Quantise::KEEP, |_| panic!("{name}: weights are read"))
            .expect_err(name);
        assert!(expected(&error), "{name}: {error:?}");
    }
}

#[test]
fn unused_tensors_are_ignored() {
    let plain = load(&tiny_source(), &Quantise::KEEP).unwrap();
    let mut source = tiny_source();
    edit_tensors(&mut source, |tensors| {
        let bytes = |count| vec![1; count];
        tensors.push(("lm_head.weight".into(), Dtype::F32, vec![11, 20], bytes(880)));
        let rotary = "model.layers.0.self_attn.rotary_emb.inv_freq".to_string();
        tensors.push((rotary, Dtype::F64, vec![3], bytes(24)));
    });
    assert_eq!(load(&source, &Quantise::KEEP).unwrap(), plain);

    let mut source = tiny_source();
    edit_tensors(&mut source, |tensors| {
        for (name, ..) in tensors {
            *name = name.trim_start_matches("model.").into();
        }
    });
    assert_eq!(load(&source, &Quantise::KEEP).unwrap(), plain, "names of a base model");
}

#[test]
fn optional_files_may_be_absent_or_a_page() {
    let source = tiny_source();
    assert_eq!(block_on(source.read_optional("generation_config.json")), Ok(None));
    assert!(block_on(source.read_optional("config.json")).unwrap().is_some());
    assert!(matches!(block_on(source.read("generation_config.json")), Err(Error::Fetch { .. })));
}

#[test]
fn a_model_larger_than_memory_is_refused() {
    let weight = Weight::matrix(Param::Embed, (1 << 40, 1 << 10), Layout::F32);
    let error = block_on(HostSink::new().create(&[weight])).unwrap_err();
    assert!(matches!(error, Error::TooLarge { bytes, .. } if bytes == 1 << 52), "{error:?}");
}

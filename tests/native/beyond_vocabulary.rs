//! A folder whose tokenizer has a special token more than the embedding has rows, as the folders of
//! Gemma 3 1B and 270M have `<image_soft_token>`.

use std::{fs, ops::ControlFlow};

use serde_json::{Value, json};
use tabloom::{
    api::{ChatCompletionRequest, CompletionRequest, EmbeddingRequest},
    engine::{Options, RequestId, TabId, steady_clock},
    error::Error,
    executor::AnyExecutor,
    load::{self, Device, DraftWith, LoadOptions, Model},
    service::{Moment, Reply, Service},
    weights::FolderSource,
};

const MOMENT: Moment = Moment { now: 1_800_000_000, entropy: 7, tab: TabId(0), salt: 0 };
/// Rows of the built-in model's embedding: the first id without one.
const BEYOND: u32 = 2048;

/// The built-in model with another tokenizer, whose template writes the token where `image` is given.
fn load(edit: impl Fn(&mut Value)) -> Result<Model, Error> {
    let built_in = format!("{}/www/model", env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(format!("{built_in}/{file}"), folder.path().join(file)).expect("a copy");
    }
    let write = |file: &str, edit: &dyn Fn(&mut Value)| {
        let json = fs::read(format!("{built_in}/{file}")).expect("a file of the model");
        let mut json: Value = serde_json::from_slice(&json).expect("a JSON file");
        edit(&mut json);
        fs::write(folder.path().join(file), json.to_string()).expect("a file");
    };
    write("tokenizer.json", &edit);
    write("generation_config.json", &|json| json["eos_token_id"] = json!([2, BEYOND]));
    write("tokenizer_config.json", &|json| {
        let template = json["chat_template"].as_str().expect("a template");
        let image = "{% if image %}<image_soft_token>{% endif %}";
        json["chat_template"] = format!("{template}{image}").into();
    });
    let options =
        LoadOptions { device: Device::Cpu, draft: DraftWith::Nothing, ..Default::default() };
    let source = FolderSource::new(folder.path());
    pollster::block_on(load::model(&source, &options, |_| ControlFlow::Continue(())))
}

fn add_token(tokenizer: &mut Value) {
    let added = tokenizer["added_tokens"].as_array_mut().expect("added tokens");
    added.push(json!({"id": BEYOND, "content": "<image_soft_token>", "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false, "special": true}));
}

fn chat(
    service: &mut Service<AnyExecutor>,
    content: &str,
    fields: &Value,
) -> Result<RequestId, Error> {
    let mut request = fields.clone();
    request["messages"] = json!([{"role": "user", "content": content}]);
    service.submit(ChatCompletionRequest::read(&request)?.validate()?, MOMENT, &[])
}

#[test]
fn a_token_without_an_embedding_is_never_sampled_and_refused_by_name() {
    let model = load(add_token).expect("it loads");
    let options = Options::default();
    let mut service =
        Service::new(model.loaded.executor, model.chat, "it".into(), options, steady_clock());
    for (fields, param) in [
        (json!({"logit_bias": {"2048": 5}}), "logit_bias"),
        (json!({"allowed_token_ids": [7, BEYOND]}), "allowed_token_ids"),
        (json!({"stop_token_ids": [BEYOND]}), "stop_token_ids"),
        (json!({"logprobs": true, "logprob_token_ids": [BEYOND]}), "logprob_token_ids"),
    ] {
        expect_refusal(chat(&mut service, "hi", &fields), param);
    }
    let image = json!({"chat_template_kwargs": {"image": true}});
    expect_refusal(chat(&mut service, "hi", &image), "messages");
    let fields = json!({"prompt": [7, BEYOND], "max_tokens": 1});
    let completion = CompletionRequest::read(&fields).unwrap().validate().unwrap();
    expect_refusal(service.complete(completion, MOMENT, &[]), "prompt");
    let embedding = EmbeddingRequest::read(json!({"input": [7, BEYOND]})).unwrap();
    let embedded = embedding.validate().and_then(|request| service.embed(request, TabId(0), 0));
    expect_refusal(embedded, "input");

    // The service goes on; that the token also ends answers does not matter.
    chat(&mut service, "hi", &json!({"max_tokens": 8, "min_tokens": 2, "temperature": 0})).unwrap();
    let mut text = None;
    while !service.is_idle() {
        for (_, reply) in pollster::block_on(service.step()).expect("the engine runs") {
            if let Reply::Completion(completion) = reply {
                text = completion.choices[0].message.content.clone();
            }
        }
    }
    assert!(text.is_some_and(|text| !text.is_empty()));
}

fn expect_refusal(refused: Result<RequestId, Error>, named: &str) {
    match refused {
        Err(Error::InvalidRequest { param, message }) => {
            assert_eq!(param.split('[').next(), Some(named), "{message}");
            assert!(message.contains("2048"), "{message}");
        }
        other => panic!("{named}: {other:?}"),
    }
}

#[test]
fn a_vocabulary_larger_than_the_embedding_is_another_model_s() {
    let ordinary = |tokenizer: &mut Value| tokenizer["model"]["vocab"]["zz"] = json!(BEYOND);
    match load(ordinary).map(|_| ()) {
        Err(Error::InvalidConfig { field, expected, .. }) => {
            assert_eq!((&field[..], expected.contains("2048")), ("vocab_size", true), "{expected}");
        }
        other => panic!("{other:?}"),
    }
}

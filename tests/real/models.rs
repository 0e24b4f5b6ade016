//! Published GGUF files answer as transformers does in f32 on their dequantised weights.

use std::{collections::BTreeMap, ops::ControlFlow};

use pollster::block_on;
use serde::Deserialize;
use tabloom::{
    api::Message,
    engine::{Engine, Event, Options, Request, steady_clock},
    load::{self, Device, LoadOptions, Model},
    step::Sampling,
    weights::FolderSource,
};

use crate::files::real;

/// A prompt and its greedy continuation.
#[derive(Deserialize)]
struct Golden {
    #[serde(flatten)]
    prompt: Prompt,
    ids: Vec<u32>,
    greedy: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Prompt {
    Text(String),
    Messages(Vec<Turn>),
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
}

impl Turn {
    fn message(&self) -> Message {
        match self.role.as_str() {
            "system" => Message::system(&self.content),
            _ => Message::user(&self.content),
        }
    }
}

fn goldens(file: &str) -> Vec<Golden> {
    let json = include_bytes!("../goldens/real/models.json");
    let mut files: BTreeMap<String, Vec<Golden>> = serde_json::from_slice(json).expect("valid");
    files.remove(file).expect("the file has goldens")
}

/// The greedy answers, computed side by side.
fn answers(model: Model, goldens: &[Golden]) -> Vec<Vec<u32>> {
    let mut engine = Engine::new(model.loaded.executor, Options::default(), steady_clock());
    let request = |golden: &Golden| Request {
        prompt: golden.ids.clone(),
        sampling: Sampling::GREEDY,
        max_tokens: Some(golden.greedy.len()),
        ..Default::default()
    };
    let mut answers = BTreeMap::new();
    for golden in goldens {
        answers.insert(engine.submit(request(golden)).expect("it is accepted"), Vec::new());
    }
    while !engine.is_idle() {
        for event in block_on(engine.step()).expect("the device lives") {
            if let Event::Token { id, token, .. } = event {
                answers.get_mut(&id).expect("it was asked").push(token);
            }
        }
    }
    answers.into_values().collect()
}

fn it_answers_as_transformers_does(file: &str, device: Device) {
    let goldens = goldens(file);
    let source = FolderSource::new(real(&format!("models/{file}")));
    let options = LoadOptions { device, context: Some(256), ..Default::default() };
    let model = block_on(load::model(&source, &options, |_| ControlFlow::Continue(())));
    let model = model.expect("it loads");
    for Golden { prompt, ids, .. } in &goldens {
        let found = match prompt {
            Prompt::Text(text) => model.chat.tokenizer().encode_raw(text, true),
            Prompt::Messages(turns) => {
                let messages: Vec<Message> = turns.iter().map(Turn::message).collect();
                model.chat.prompt(&messages.into(), None).map(|prompt| prompt.ids)
            }
        };
        assert_eq!(found.as_ref(), Ok(ids), "the prompt's ids");
    }
    for (golden, answer) in goldens.iter().zip(answers(model, &goldens)) {
        assert_eq!(answer, golden.greedy);
    }
}

#[test]
fn smollm2_on_the_cpu() {
    it_answers_as_transformers_does("SmolLM2-135M-Instruct.Q4_1.gguf", Device::Cpu);
}

#[test]
fn smollm2_on_the_gpu() {
    it_answers_as_transformers_does("SmolLM2-135M-Instruct.Q4_1.gguf", Device::Gpu);
}

#[test]
fn gemma3_on_the_cpu() {
    it_answers_as_transformers_does("gemma-3-270m.Q4_K_M.gguf", Device::Cpu);
}

#[test]
fn gemma3_on_the_gpu() {
    it_answers_as_transformers_does("gemma-3-270m.Q4_K_M.gguf", Device::Gpu);
}

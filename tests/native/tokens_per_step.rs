//! Tokens per step of the built-in model, with its draft head and with prompt lookup, on held-out
//! questions.

#[path = "../../examples/bench/speculate/prompts.rs"]
#[allow(dead_code)] // the bench uses the rest
mod prompts;
#[path = "../../examples/bench/speculate/runner.rs"]
#[allow(dead_code)]
mod runner;

use std::{collections::BTreeMap, fs};

use pollster::block_on;
use tabloom::load::Device;

use runner::{DraftBy, Drafting, Ran, Ready};

/// Most drafts per step.
const DRAFTS: usize = 5;

/// Chats per task, the first of up to twelve: all of them would take a minute.
const CHATS: usize = 8;

/// Counts of greedy answers, by task.
fn ran(beside: DraftBy, drafting: Drafting, tasks: impl Fn(&str) -> bool) -> BTreeMap<String, Ran> {
    block_on(async {
        let chat = runner::load(Device::Cpu, DraftBy::Nothing).await?.chat;
        let mut runner = Ready::load(Device::Cpu, beside).await?.runner(drafting);
        let mut found = BTreeMap::new();
        for (task, prompts) in prompts::prompts(&chat)? {
            if tasks(&task) {
                let prompts = &prompts[..prompts.len().min(CHATS)];
                found.insert(task, runner.run(prompts, 1).await?);
            }
        }
        anyhow::Ok(found)
    })
    .expect("the built-in model answers")
}

fn tokens_per_step<'a>(ran: impl IntoIterator<Item = &'a Ran>) -> f64 {
    let mut all = Ran::default();
    ran.into_iter().for_each(|ran| all.add(*ran));
    all.tokens_per_step().expect("steps")
}

#[test]
fn several_drafts_in_a_row_of_the_head_are_accepted() {
    let drafting = Drafting { lookup: false, most: DRAFTS, adaptive: false };
    let ran = ran(DraftBy::Head, drafting, |_| true);
    let (all, hardest) = (tokens_per_step(ran.values()), tokens_per_step([&ran["word lists"]]));
    println!("{all:.2} tokens a step, {hardest:.2} of word lists");
    assert!(all >= 4.0, "{all}");
    assert!(hardest >= 2.2, "{hardest}");
}

#[test]
fn prompt_lookup_finds_answers_that_are_already_in_the_chat() {
    let drafting = Drafting { lookup: true, most: DRAFTS, adaptive: false };
    let ran = ran(DraftBy::Nothing, drafting, |task| task == "asked again");
    let found = tokens_per_step(ran.values());
    println!("{found:.2} tokens a step");
    assert!(found >= 3.0, "{found}");
}

#[test]
fn the_draft_head_has_at_most_a_fifth_of_the_models_weights() {
    let bytes = |folder: &str| {
        let root = env!("CARGO_MANIFEST_DIR");
        let file = format!("{root}/www/model/{folder}model.safetensors");
        fs::metadata(file).expect("weights").len()
    };
    assert!(5 * bytes("draft/") <= bytes(""));
}

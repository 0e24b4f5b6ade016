//! Held-out questions to the built-in model, by task; `training/bench_prompts.py` writes them.

use std::collections::BTreeMap;

use anyhow::Result;
use tabloom::{api::Message, text::Chat};

const CHATS: &str = include_str!("prompts.json");

/// Chats by task. In each, user and assistant speak in turn, and the user has the last word.
pub fn chats() -> Result<BTreeMap<String, Vec<Vec<String>>>> {
    Ok(serde_json::from_str(CHATS)?)
}

/// The token ids of the chats.
pub fn prompts(chat: &Chat) -> Result<BTreeMap<String, Vec<Vec<u32>>>> {
    let prompt = |said: Vec<String>| {
        let speakers = [Message::user, Message::assistant].into_iter().cycle();
        let messages: Vec<Message> =
            speakers.zip(said).map(|(speak, content)| speak(content)).collect();
        Ok(chat.prompt(&messages.into(), None)?.ids)
    };
    let of_task = |(task, chats): (String, Vec<Vec<String>>)| {
        Ok((task, chats.into_iter().map(prompt).collect::<Result<_>>()?))
    };
    chats()?.into_iter().map(of_task).collect()
}

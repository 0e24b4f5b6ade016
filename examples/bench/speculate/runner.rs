//! An engine of the built-in model that drafts in one way, and what its answers take.

use std::{ops::ControlFlow, rc::Rc, time::Instant};

use anyhow::Result;
use tabloom::{
    engine::{Engine, Event, Options, Request, steady_clock},
    executor::AnyExecutor,
    load::{self, Device, DraftWith, LoadOptions, Model},
    speculate::Ngram,
    weights::FolderSource,
};

/// How tokens are guessed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drafting {
    pub lookup: bool,
    pub head: bool,
    /// Most drafts of a sequence in a step; 0: none.
    pub most: usize,
    /// As many as pay, not as many as may be.
    pub adaptive: bool,
}

/// Answers greedily.
pub struct Runner {
    engine: Engine<AnyExecutor>,
    end_tokens: Vec<u32>,
}

/// What answers took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    /// Tokens of the answers, their ends included.
    pub tokens: usize,
    pub answers: usize,
    /// Steps that brought tokens.
    pub steps: usize,
    pub seconds: f64,
}

impl Ran {
    /// Tokens after each answer's first for each step after its prompt's, of answers one at a time;
    /// none where there was no such step.
    pub fn tokens_per_step(&self) -> Option<f64> {
        let (tokens, steps) = (self.tokens - self.answers, self.steps - self.answers);
        (steps > 0).then(|| tokens as f64 / steps as f64)
    }

    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }

    pub fn add(&mut self, other: Ran) {
        self.tokens += other.tokens;
        self.answers += other.answers;
        self.steps += other.steps;
        self.seconds += other.seconds;
    }
}

/// Loads the built-in model, with its head or without.
pub async fn load(device: Device, head: bool) -> Result<Model> {
    let source = FolderSource::new(concat!(env!("CARGO_MANIFEST_DIR"), "/www/model"));
    let draft = if head { DraftWith::Beside } else { DraftWith::Nothing };
    let options = LoadOptions { device, draft, ..LoadOptions::default() };
    let model = load::model(&source, &options, |_| ControlFlow::Continue(())).await?;
    if let Some(Err(error)) = &model.loaded.draft {
        anyhow::bail!("the head does not load: {error}");
    }
    Ok(model)
}

impl Runner {
    pub async fn load(device: Device, drafting: Drafting) -> Result<Runner> {
        let Drafting { lookup, head, most, adaptive } = drafting;
        let model = load(device, head).await?;
        let options = Options { max_drafts: most, adaptive_drafts: adaptive, ..Options::default() };
        let mut engine = Engine::new(model.loaded.executor, options, steady_clock());
        if !lookup {
            let silent = Ngram { sizes: usize::MAX..=usize::MAX };
            engine = engine.with_drafter(Rc::new(silent));
        }
        Ok(Runner { engine, end_tokens: model.chat.defaults().eos_ids.clone() })
    }

    /// Answers all prompts, `batch` at a time.
    pub async fn run(&mut self, prompts: &[Vec<u32>], batch: usize) -> Result<Ran> {
        let (mut ran, mut begun) = (Ran::default(), 0);
        let start = Instant::now();
        while ran.answers < prompts.len() {
            while begun < prompts.len().min(ran.answers + batch) {
                self.engine.submit(self.request(&prompts[begun]))?;
                begun += 1;
            }
            let events = self.engine.step().await?;
            ran.steps += usize::from(!events.is_empty());
            for event in events {
                if let Event::Finished { usage, .. } = event {
                    ran.tokens += usage.completion_tokens;
                    ran.answers += 1;
                }
            }
        }
        ran.seconds = start.elapsed().as_secs_f64();
        // Rows that were planned before an answer's end was known.
        while !self.engine.is_idle() {
            self.engine.step().await?;
        }
        Ok(ran)
    }

    fn request(&self, prompt: &[u32]) -> Request {
        /// Of the answers that the head has learnt from.
        const LONGEST: usize = 300;
        Request {
            prompt: prompt.to_vec(),
            end_tokens: self.end_tokens.clone(),
            max_tokens: Some(LONGEST),
            ..Request::default()
        }
    }
}

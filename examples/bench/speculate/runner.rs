//! Runs the built-in model with one kind of drafting, and measures it.

use std::{cell::RefCell, ops::ControlFlow, rc::Rc, time::Instant};

use anyhow::{Result, ensure};
use tabloom::{
    engine::{Engine, Event, Options, Request, steady_clock},
    executor::AnyExecutor,
    load::{Device, DraftWith, LoadOptions, Model, Opened},
    speculate::Ngram,
    step::{Capacity, Executor, StepPlan, StepResult},
    weights::{FolderSource, Within},
};

/// The drafter on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DraftBy {
    Nothing,
    /// The built-in model's draft head.
    Head,
    /// The built-in model itself as the draft model.
    Model,
    /// The built-in model's first layers.
    EarlyExit,
}

/// Layers before the early exit; the model has four.
const EXIT: usize = 3;

/// Settings of speculative decoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drafting {
    pub lookup: bool,
    /// Most draft tokens per sequence and step; 0 turns speculative decoding off.
    pub most: usize,
    /// Whether the number of draft tokens adapts to their benefit; otherwise it is always the maximum.
    pub adaptive: bool,
}

/// An executor that several engines share in turn.
#[derive(Clone)]
pub struct Shared(Rc<RefCell<AnyExecutor>>);

impl Executor for Shared {
    fn capacity(&self) -> Capacity {
        self.0.borrow().capacity()
    }

    fn depth(&self) -> usize {
        self.0.borrow().depth()
    }

    fn drafts(&self) -> usize {
        self.0.borrow().drafts()
    }

    fn submit(&mut self, plan: &StepPlan) -> tabloom::Result<()> {
        self.0.borrow_mut().submit(plan)
    }

    #[allow(clippy::await_holding_refcell_ref)] // the engine whose turn it is waits
    async fn result(&mut self, turn: impl AsyncFn()) -> tabloom::Result<StepResult> {
        self.0.borrow_mut().result(turn).await
    }
}

/// The loaded model with its drafter, for engines that differ only in their drafting.
pub struct Ready {
    executor: Shared,
    end_tokens: Vec<u32>,
}

/// An engine that answers greedily.
pub struct Runner {
    engine: Engine<Shared>,
    end_tokens: Vec<u32>,
}

/// Measurements of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    /// Generated tokens, end tokens included.
    pub tokens: usize,
    pub answers: usize,
    /// Steps that produced tokens.
    pub steps: usize,
    pub seconds: f64,
}

impl Ran {
    /// Tokens per decode step, without each answer's first token, for answers one at a time; `None`
    /// without decode steps.
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

/// Loads the built-in model with a drafter.
pub async fn load(device: Device, kind: DraftBy) -> Result<Model> {
    let source = FolderSource::new(concat!(env!("CARGO_MANIFEST_DIR"), "/www/model"));
    let (draft, folder) = match kind {
        DraftBy::Nothing => (DraftWith::Nothing, "draft"),
        DraftBy::Head => (DraftWith::Bundled, "draft"),
        DraftBy::Model => (DraftWith::Bundled, ""),
        DraftBy::EarlyExit => (DraftWith::EarlyExit(EXIT), "draft"),
    };
    let options = LoadOptions { device, draft, ..LoadOptions::default() };
    let opened = Opened::open(&source).await?;
    let chat = opened.chat().await?;
    let folder = Within { folder, source: &source };
    let draft = opened.draft(&folder, &options).await;
    let prepared = opened.prepare(&options)?.with_draft(draft)?;
    let loaded = prepared.load(|_| ControlFlow::Continue(())).await?;
    if let Some(Err(error)) = &loaded.draft {
        anyhow::bail!("the drafter does not load: {error}");
    }
    Ok(Model { chat, loaded })
}

impl Ready {
    pub async fn load(device: Device, kind: DraftBy) -> Result<Ready> {
        let Model { chat, loaded } = load(device, kind).await?;
        let executor = Shared(Rc::new(RefCell::new(loaded.executor)));
        Ok(Ready { executor, end_tokens: chat.defaults().eos_ids.clone() })
    }

    /// A new engine.
    pub fn runner(&self, drafting: Drafting) -> Runner {
        let Drafting { lookup, most, adaptive } = drafting;
        let options = Options { max_drafts: most, adaptive_drafts: adaptive, ..Options::default() };
        let mut engine = Engine::new(self.executor.clone(), options, steady_clock());
        if !lookup {
            let silent = Ngram::new(usize::MAX..=usize::MAX);
            engine = engine.with_proposer(Rc::new(silent));
        }
        Runner { engine, end_tokens: self.end_tokens.clone() }
    }
}

impl Runner {
    /// Answers all prompts, `batch` at a time.
    pub async fn run(&mut self, prompts: &[Vec<u32>], batch: usize) -> Result<Ran> {
        let (mut ran, mut begun) = (Ran::default(), 0);
        // Other engines have overwritten the cached KV blocks.
        ensure!(self.engine.reset_prefix_cache(false), "blocks are in use");
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
        // Finish steps that were planned before an answer's end was known.
        while !self.engine.is_idle() {
            self.engine.step().await?;
        }
        Ok(ran)
    }

    fn request(&self, prompt: &[u32]) -> Request {
        /// The longest answer in the draft head's training data.
        const LONGEST: usize = 300;
        Request {
            prompt: prompt.to_vec(),
            end_tokens: self.end_tokens.clone(),
            max_tokens: Some(LONGEST),
            ..Request::default()
        }
    }
}

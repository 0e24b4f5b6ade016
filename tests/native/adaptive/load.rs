//! Loads on a modelled device, and how long they take.

use std::{cell::Cell, collections::HashMap, ops::Range, rc::Rc, time::Duration};

use pollster::block_on;
use tabloom::engine::{Engine, Event, Options, Request};

use super::device::{Device, Modelled, Text};

/// Requests, and when they come.
#[derive(Clone, Debug)]
pub struct Load {
    pub text: Text,
    /// Tokens of prompts and of answers.
    pub prompts: Range<usize>,
    pub answers: Range<usize>,
    pub arrivals: Arrivals,
}

#[derive(Clone, Copy, Debug)]
pub enum Arrivals {
    /// This many at a time: the next comes when one ends.
    Closed(usize),
    /// At random, one in this many steps on average.
    Open(f64),
}

/// An engine on a modelled device.
pub struct Runner {
    engine: Engine<Modelled>,
    clock: Rc<Cell<f64>>,
    random: fastrand::Rng,
}

/// A step of one row takes five milliseconds.
const STEP: f64 = 5e-3;

impl Runner {
    /// `drafts`: this many always, or as many as seem to pay.
    pub fn new(device: Device, text: Text, drafts: Option<usize>, seed: u64) -> Runner {
        let clock = Rc::new(Cell::new(0.0));
        // More may wait than a site lets them: a fixed number of drafts may be too slow for the load.
        let (max_queue, max_queue_per_tab) = (usize::MAX, usize::MAX);
        let mut options = Options { max_queue, max_queue_per_tab, ..Options::default() };
        options.adaptive_drafts = drafts.is_none();
        options.max_drafts = drafts.unwrap_or(options.max_drafts);
        let executor = Modelled::new(device, text, clock.clone(), seed);
        let now = clock.clone();
        let time = Box::new(move || Duration::from_secs_f64(STEP * now.get()));
        let engine = Engine::new(executor, options, time);
        Runner { engine, clock, random: fastrand::Rng::with_seed(!seed) }
    }

    /// The time in which at least this many tokens are answered: with closed arrivals the whole time,
    /// with open ones the requests' own, added up. Runners of one seed get the same requests.
    pub fn run(&mut self, load: &Load, tokens: usize) -> f64 {
        let start = self.clock.get();
        let (mut asked, mut next, mut spent) = (0, start, 0.0);
        let mut live = HashMap::new();
        while asked < tokens || !live.is_empty() {
            while asked < tokens {
                let at = match load.arrivals {
                    Arrivals::Closed(most) if live.len() < most => self.clock.get(),
                    Arrivals::Open(_) if next <= self.clock.get() || live.is_empty() => next,
                    Arrivals::Closed(_) | Arrivals::Open(_) => break,
                };
                self.clock.set(self.clock.get().max(at));
                if let Arrivals::Open(mean) = load.arrivals {
                    next -= mean * (1.0 - self.random.f64()).ln();
                }
                let request = self.request(load);
                asked += request.max_tokens.expect("a length");
                live.insert(self.engine.submit(request).expect("it is valid"), at);
            }
            for event in block_on(self.engine.step()).expect("the device works") {
                if let Event::Finished { id, .. } = event {
                    spent += self.clock.get() - live.remove(&id).expect("it was asked");
                }
            }
        }
        match load.arrivals {
            Arrivals::Closed(_) => self.clock.get() - start,
            Arrivals::Open(_) => spent,
        }
    }

    fn request(&mut self, load: &Load) -> Request {
        let length = self.random.usize(load.prompts.clone());
        let mut prompt = Vec::new();
        while prompt.len() < length {
            let text = if load.text == Text::Fresh { Text::Fresh } else { Text::Phrases };
            prompt.extend(text.next(&mut self.random, &[], 0));
        }
        prompt.truncate(length);
        let max_tokens = Some(self.random.usize(load.answers.clone()));
        Request { prompt, max_tokens, ..Request::default() }
    }
}

//! The requests of a site's tabs, and their timing.

use std::ops::Range;

use tabloom::engine::{Request, TabId};

/// Lengths in tokens for a context of [`CONTEXT`]; for smaller contexts, proportionally less.
const CONTEXT: usize = 8192;
const SYSTEM_PROMPT: usize = 256;
const CONVERSATION: usize = 1024;
const DOCUMENT: usize = 1024;
const DOCUMENTS: usize = 4;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The next turn of a conversation, after its history and a system prompt that all tabs share.
    Chat,
    /// The same, with one answer in eight that is eight times as long.
    Story,
    /// A question about one of a few documents that all tabs share.
    Document,
    /// A unique prompt of 4096 tokens.
    Long,
    /// A unique prompt of 1024 to 2048 tokens with lower priority: a summary in the background.
    Summary,
    /// A unique prompt of 128 tokens, and an answer of 16.
    Short,
}

impl Kind {
    /// A mix of kinds, weighted by repetition.
    pub const MIXED: &[Kind] = {
        use Kind::{Chat, Document, Long, Summary};
        &[
            Chat, Document, Chat, Chat, Summary, Chat, Document, Chat, Chat, Document, Chat, Long,
            Chat, Chat, Document, Chat, Summary, Chat, Document, Chat,
        ]
    };
}

/// When a tab sends requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Open loop: a Poisson process with this many requests per second, independent of the answers.
    Poisson(f64),
    /// Closed loop: `think` seconds, on average, after an answer has ended.
    Closed { think: f64 },
}

/// One tab's behaviour.
#[derive(Clone, Debug)]
pub struct Tab {
    /// The kinds of its requests, chosen at random.
    pub mix: &'static [Kind],
    pub pace: Pace,
    /// Number of requests. `None`: until all other tabs are done.
    pub requests: Option<usize>,
}

/// All tabs, and the random seed.
#[derive(Clone, Debug)]
pub struct Load {
    pub tabs: Vec<Tab>,
    pub seed: u64,
}

/// A tab with its conversations; it sends one request at a time.
pub struct Visitor {
    tab: Tab,
    id: TabId,
    rng: fastrand::Rng,
    site: Site,
    conversations: Vec<Conversation>,
}

/// Prompts that all tabs share.
#[derive(Clone)]
struct Site {
    vocab: u32,
    /// Factor of the lengths above.
    scale: f64,
    system_prompt: Vec<u32>,
    documents: Vec<Vec<u32>>,
}

#[derive(Default)]
struct Conversation {
    history: Vec<u32>,
    /// Whether it waits for an answer.
    waiting: bool,
}

/// A request, and the conversation that its answer is added to.
pub struct Question {
    pub kind: Kind,
    pub request: Request,
    pub conversation: Option<usize>,
}

impl Load {
    /// A load in which all tabs behave the same.
    pub fn alike(tabs: usize, tab: Tab, seed: u64) -> Load {
        Load { tabs: vec![tab; tabs], seed }
    }

    /// The tabs' visitors, for a model with this vocabulary and context.
    pub fn visitors(&self, vocab: usize, context: usize) -> Vec<Visitor> {
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let mut site = Site {
            vocab: vocab as u32,
            scale: (context as f64 / CONTEXT as f64).min(1.0),
            system_prompt: Vec::new(),
            documents: Vec::new(),
        };
        site.system_prompt = site.text(&mut rng, SYSTEM_PROMPT..SYSTEM_PROMPT + 1);
        let document = |_| site.text(&mut rng, DOCUMENT..DOCUMENT + 1);
        site.documents = (0..DOCUMENTS).map(document).collect();
        let visitor = |(at, tab): (usize, &Tab)| Visitor {
            tab: tab.clone(),
            id: TabId(at as u64),
            rng: rng.fork(),
            site: site.clone(),
            conversations: Vec::new(),
        };
        self.tabs.iter().enumerate().map(visitor).collect()
    }
}

impl Visitor {
    pub fn is_background(&self) -> bool {
        self.tab.requests.is_none()
    }

    pub fn is_open_loop(&self) -> bool {
        matches!(self.tab.pace, Pace::Poisson(_))
    }

    /// Seconds until the next request, counted from the previous one or from its end; `None` after the
    /// last.
    pub fn pause(&mut self) -> Option<f64> {
        if let Some(requests) = &mut self.tab.requests {
            *requests = requests.checked_sub(1)?;
        }
        let mean = match self.tab.pace {
            Pace::Poisson(rate) => 1.0 / rate,
            Pace::Closed { think } => think,
        };
        Some(-mean * (1.0 - self.rng.f64()).ln())
    }

    /// The next request.
    pub fn ask(&mut self) -> Question {
        let kind = *self.rng.choice(self.tab.mix).expect("a tab asks something");
        let mut conversation = None;
        let (prompt, answer) = match kind {
            Kind::Chat | Kind::Story => {
                let at = self.conversation();
                conversation = Some(at);
                let question = self.text(16..97);
                let history = &mut self.conversations[at].history;
                history.extend(question);
                let is_long = kind == Kind::Story && self.rng.u32(..8) == 0;
                let answer = if is_long { 1024..2049 } else { 128..257 };
                (history.clone(), answer)
            }
            Kind::Document => {
                let question = self.text(16..65);
                let document = self.rng.usize(..DOCUMENTS);
                ([&self.site.documents[document][..], &question].concat(), 32..129)
            }
            Kind::Long => (self.text(4096..4097), 32..129),
            Kind::Summary => (self.text(1024..2049), 96..193),
            Kind::Short => (self.text(128..129), 16..17),
        };
        let request = Request {
            prompt,
            max_tokens: Some(self.site.length(&mut self.rng, answer)),
            tab: self.id,
            priority: i32::from(kind == Kind::Summary),
            ..Request::default()
        };
        Question { kind, request, conversation }
    }

    /// Takes the answer to a request.
    pub fn hear(&mut self, question: &Question, answer: &[u32]) {
        let Some(at) = question.conversation else { return };
        let conversation = &mut self.conversations[at];
        conversation.history.extend(answer);
        conversation.waiting = false;
    }

    /// A conversation that does not wait for an answer; one that is too long starts again.
    fn conversation(&mut self) -> usize {
        let at = self.conversations.iter().position(|conversation| !conversation.waiting);
        let at = at.unwrap_or_else(|| {
            self.conversations.push(Conversation::default());
            self.conversations.len() - 1
        });
        let limit = (CONVERSATION as f64 * self.site.scale) as usize;
        let Conversation { history, waiting } = &mut self.conversations[at];
        if history.is_empty() || history.len() > limit {
            history.clone_from(&self.site.system_prompt);
        }
        *waiting = true;
        at
    }

    fn text(&mut self, length: Range<usize>) -> Vec<u32> {
        self.site.text(&mut self.rng, length)
    }
}

impl Site {
    fn length(&self, rng: &mut fastrand::Rng, range: Range<usize>) -> usize {
        ((rng.usize(range) as f64 * self.scale) as usize).max(1)
    }

    fn text(&self, rng: &mut fastrand::Rng, length: Range<usize>) -> Vec<u32> {
        (0..self.length(rng, length)).map(|_| rng.u32(..self.vocab)).collect()
    }
}

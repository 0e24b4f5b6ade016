//! Limits how long a model may think before it answers.

/// A limit on the tokens between two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThinkingBudget {
    /// The token that begins the thinking.
    pub begin: u32,
    /// The token that ends it.
    pub end: u32,
    /// Most tokens between the two.
    pub tokens: usize,
}

/// Whether an answer is thinking now, and for how long.
#[derive(Clone, Debug)]
pub struct Thinking {
    budget: ThinkingBudget,
    /// Thinking tokens so far; `None` outside.
    used: Option<usize>,
}

impl Thinking {
    /// Before the first token of the answer. Some templates' prompts end inside the thinking.
    pub fn new(budget: ThinkingBudget, prompt: &[u32]) -> Thinking {
        let last = |mark| prompt.iter().rposition(|token| *token == mark);
        let inside = last(budget.begin) > last(budget.end);
        Thinking { budget, used: inside.then_some(0) }
    }

    /// Advances by a token of the answer.
    pub fn accept(&mut self, token: u32) {
        self.used = match self.used {
            _ if token == self.budget.begin => Some(0),
            _ if token == self.budget.end => None,
            used => used.map(|used| used + 1),
        };
    }

    /// The token that must be sampled now, if the budget is used up.
    pub fn must_end(&self) -> Option<u32> {
        self.used.filter(|used| *used >= self.budget.tokens).map(|_| self.budget.end)
    }

    /// Whether `pending` unknown tokens could use up the budget.
    pub fn may_end(&self, pending: usize) -> bool {
        match self.used {
            Some(used) => used + pending >= self.budget.tokens,
            // The first of them may begin the thinking.
            None => pending > self.budget.tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: u32 = 1;
    const END: u32 = 2;

    fn after(tokens: usize, prompt: &[u32], answer: &[u32]) -> Thinking {
        let budget = ThinkingBudget { begin: BEGIN, end: END, tokens };
        let mut thinking = Thinking::new(budget, prompt);
        answer.iter().for_each(|token| thinking.accept(*token));
        thinking
    }

    #[test]
    fn thinking_ends_when_its_budget_is_spent_and_not_before() {
        for (tokens, prompt, answer, ends) in [
            (2, &[7][..], &[][..], false),
            (2, &[7], &[7, 7, 7], false),
            (2, &[7], &[BEGIN, 7], false),
            (2, &[7], &[BEGIN, 7, 7], true),
            (2, &[7], &[BEGIN, 7, END], false),
            (2, &[7], &[BEGIN, 7, END, 7, 7, 7], false),
            (2, &[7], &[BEGIN, 7, END, BEGIN, 7, 7], true),
            (2, &[7, BEGIN], &[7], false),
            (2, &[7, BEGIN], &[7, 7], true),
            (2, &[BEGIN, 7, END, 7], &[7, 7], false),
            (0, &[BEGIN], &[], true),
            (0, &[7], &[BEGIN], true),
        ] {
            let must = after(tokens, prompt, answer).must_end();
            assert_eq!(must, ends.then_some(END), "{tokens} {prompt:?} {answer:?}");
        }
    }

    #[test]
    fn unknown_tokens_are_waited_for_only_where_they_could_spend_the_budget() {
        let alphabet = [BEGIN, END, 7];
        for (tokens, prompt) in [(0, &[7][..]), (1, &[7]), (2, &[BEGIN]), (3, &[BEGIN]), (3, &[7])]
        {
            for known in 0..3 {
                for pending in 1..3 {
                    let answer = |i: usize, count: u32| {
                        (0..count).map(|j| alphabet[i / 3usize.pow(j) % 3]).collect::<Vec<_>>()
                    };
                    for i in 0..3usize.pow(known) {
                        let thinking = after(tokens, prompt, &answer(i, known));
                        let could = (0..3usize.pow(pending as u32)).any(|next| {
                            let more = answer(next, pending as u32);
                            let all = [answer(i, known), more].concat();
                            after(tokens, prompt, &all).must_end().is_some()
                        });
                        if could {
                            assert!(thinking.may_end(pending), "{tokens} {prompt:?} {i} {pending}");
                        }
                    }
                }
            }
        }
        assert!(!after(100, &[BEGIN], &[7; 50]).may_end(2));
        assert!(!after(100, &[7], &[7; 500]).may_end(2));
    }
}

//! Headers of the messages that gpt-oss writes (OpenAI's harmony format).

use super::head::{Cursor, Halt};

/// Texts that end a message's body.
pub const ENDS: [&str; 5] = ["<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"];

/// Longest header in bytes.
const MOST: usize = 1024;

/// A message's header: `<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>`.
/// The recipient may also stand after the channel; of the first message, the prompt has the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Its length in bytes.
    pub len: usize,
    pub body: Body,
}

/// What a message's body is.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Of the final answer, or a preamble to calls.
    Content,
    Reasoning,
    /// The arguments of a call of this tool; whether there are any.
    Call {
        name: String,
        empty: bool,
    },
}

impl Header {
    /// Parses a header; `known` says whether a name is one of the tools.
    pub fn read(text: &str, known: &dyn Fn(&str) -> bool) -> Result<Header, Halt> {
        let whole = text.len() < MOST;
        let text = &text[..text.floor_char_boundary(MOST)];
        Header::parse(text, known).map_err(|halt| if whole { halt } else { Halt::Wrong })
    }

    fn parse(text: &str, known: &dyn Fn(&str) -> bool) -> Result<Header, Halt> {
        let mut cursor = Cursor { text, at: 0 };
        let word = |c: char| !c.is_whitespace() && c != '<';
        let (mut channel, mut recipient) = ("", "");
        let mut begun = false;
        cursor.blank();
        if cursor.passes("<|start|>")? {
            cursor.take_while(word)?;
            begun = true;
        }
        loop {
            cursor.blank();
            if cursor.passes("<|message|>")? {
                break;
            } else if cursor.passes("<|channel|>")? {
                channel = cursor.take_while(word)?;
            } else if cursor.passes("to=")? {
                recipient = cursor.take_while(word)?;
            } else if cursor.passes("<|constrain|>")? {
            } else if begun {
                // The type of the body, such as `json`.
                cursor.take_while(word)?;
            } else {
                return Err(Halt::Wrong);
            }
            begun = true;
        }
        let called = recipient.strip_prefix("functions.").filter(|name| known(name));
        let len = cursor.at;
        let body = match called {
            Some(name) => {
                cursor.blank();
                let mut empty = false;
                for end in ENDS {
                    empty |= cursor.peek(end)?;
                }
                Body::Call { name: name.into(), empty }
            }
            None if channel == "analysis" => Body::Reasoning,
            None => Body::Content,
        };
        Ok(Header { len, body })
    }
}

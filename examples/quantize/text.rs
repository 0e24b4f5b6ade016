//! A text as sequences of tokens: some for calibration, some held out for measuring errors.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use tabloom::text::Tokenizer;

/// Bytes of text per call of the tokenizer.
const PIECE: usize = 1 << 16;

/// Tokens of a text, cut into sequences.
pub struct Text {
    pub calibration: Vec<Vec<u32>>,
    /// The sequences after those.
    pub held_out: Vec<Vec<u32>>,
}

impl Text {
    /// Reads the first tokens of a file; at most a fifth of all is held out. Control tokens in the text are
    /// parsed. Each sequence starts like a prompt of the tokenizer.
    pub fn read(
        file: &Path,
        folder: &Path,
        tokens: usize,
        held_out: usize,
        length: usize,
    ) -> Result<Text> {
        let text = fs::read_to_string(file)
            .with_context(|| format!("cannot read the text {}", file.display()))?;
        let json = folder.join("tokenizer.json");
        let json = fs::read(&json)
            .with_context(|| format!("cannot read {}, which a text needs", json.display()))?;
        let tokenizer = Tokenizer::from_bytes(&json)?;
        let begin = tokenizer.encode_plain("", true)?;
        let mut all = Vec::new();
        for piece in pieces(&text) {
            all.extend(tokenizer.encode_prompt(piece)?);
            if all.len() >= tokens + held_out {
                break;
            }
        }
        let held_out = held_out.min(all.len() / 5);
        let tokens = tokens.min(all.len() - held_out);
        let sequences = |tokens: &[u32]| {
            let parts = tokens.chunks(length - begin.len());
            // A short rest is not representative.
            let parts = parts.filter(|part| part.len() > 8);
            parts.map(|part| [&begin, part].concat()).collect::<Vec<_>>()
        };
        let text = Text {
            calibration: sequences(&all[..tokens]),
            held_out: sequences(&all[tokens..][..held_out]),
        };
        ensure!(
            !text.calibration.is_empty() && !text.held_out.is_empty(),
            "{} has only {} tokens, which is too few to calibrate with and measure on",
            file.display(),
            all.len()
        );
        Ok(text)
    }
}

/// The text in pieces that end with a line, unless a line is too long.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let piece = &text[..text.floor_char_boundary(PIECE)];
        let end = match piece.len() == text.len() {
            true => piece.len(),
            false => piece.rfind('\n').map_or(piece.len(), |newline| newline + 1),
        };
        let (piece, rest) = text.split_at(end);
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

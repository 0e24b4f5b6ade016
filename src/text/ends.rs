//! Tokens that end an assistant's turn, whatever a model's files name as their end token.

/// Texts of special tokens that end a turn or a text in some family of models. Files often name one of
/// them alone: `<|end_of_text|>` in Llama 3's, `<eos>` in Gemma's, which then never end their turns.
///
/// These are llama.cpp's (`llama-vocab.cpp`), without those of infilling.
const ENDS: [&str; 22] = [
    "</s>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>",
    "<end_of_utterance>",
    "<eos>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "[e~[",
    "<｜end▁of▁sentence｜>",
];

/// Completes a model's end ids: `id` gives the id of a special token.
pub fn completed(named: Vec<u32>, id: impl Fn(&str) -> Option<u32>) -> Vec<u32> {
    let has = |text: &str| id(text).is_some();
    let mut ids: Vec<u32> =
        named.into_iter().chain(ENDS.iter().filter_map(|text| id(text))).collect();
    ids.sort_unstable();
    ids.dedup();
    // Where calls have an end of their own, `<|end|>` is between the messages of one answer.
    let between = has("<|return|>") && has("<|call|>") || has("<|flush|>") && has("<|calls|>");
    let message_end = id("<|end|>").filter(|_| between);
    // Gemma 4 has `</s>` as a tag of HTML.
    let tag = id("</s>").filter(|_| has("<|tool_response>"));
    ids.retain(|end| Some(*end) != message_end && Some(*end) != tag);
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(named: &[u32], special: &[&str]) -> Vec<u32> {
        let id =
            |text: &str| (0..).zip(special).find(|(_, other)| **other == text).map(|(id, _)| id);
        completed(named.to_vec(), id)
    }

    #[test]
    fn the_ends_of_a_family_join_those_that_the_files_name() {
        let llama = ["<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"];
        assert_eq!(ends(&[1], &llama), [1, 2, 3]);
        assert_eq!(ends(&[1], &["<pad>", "<eos>", "<bos>", "<end_of_turn>"]), [1, 3]);
        assert_eq!(ends(&[7], &["<|im_start|>", "<|im_end|>"]), [1, 7]);
        assert_eq!(ends(&[], &["[INST]"]), [0; 0]);
    }

    #[test]
    fn a_token_between_messages_is_no_end() {
        let harmony = ["<|end|>", "<|return|>", "<|call|>", "<|endoftext|>"];
        assert_eq!(ends(&[1, 0], &harmony), [1, 2, 3]);
        assert_eq!(ends(&[0], &["<|end|>", "<|flush|>", "<|calls|>"]), [1, 2]);
        assert_eq!(ends(&[0], &["<|end|>"]), [0]);
        assert_eq!(ends(&[1], &["</s>", "<eos>", "<turn|>", "<|tool_response>"]), [1, 2, 3]);
    }
}

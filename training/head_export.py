"""Write the trained head as a folder in the published form of EAGLE-3, read it back, measure it and write its card."""

import json
from pathlib import Path

from safetensors.torch import save_file

from drafting import Rounds, lengths, rounds
from eagle import Head, HeadShape
from export import QUANTIZATION, compressed
from exported import weights
from model import Decoder
from tokens import Chat

MOST = 7  # drafts of a round
SAMPLED_DRAFTS = 5
PER_TASK = 40
TEMPERATURE = 0.8

CARD = """---
license: mit OR apache-2.0
language: en
base_model: ..
---

# The draft head of Tabloom's built-in model

It drafts the next tokens of the model's answers (speculative decoding); the model verifies several draft tokens in one step. Answers stay
what they are without it, and come in fewer steps.

- **Architecture**: EAGLE-3 (`LlamaForCausalLMEagle3`), one layer with {parameters:,} parameters: MLP {inner}, {vocab} tokens that
  can be drafted, the commonest of the model's answers. It reads the residual streams after layers {streams}, and embeds tokens with
  the model's own table.
- **Weights**: int4 in groups of 32, symmetric (compressed-tensors `pack-quantized`); norms in f16. `model.safetensors` has
  {size:,} bytes, {share:.1%} of the model's.
- **Training**: {training}
- **Licence**: MIT OR Apache-2.0.

## Tokens for each step of the model

On held-out questions, at most {per_task} of a task, with the weights of this folder. A step verifies k drafts and gives one token
more than it accepts. The step of the prompt gives an answer's first token; neither is counted. An answer's end is a token, and cuts
its last step short, so that short answers cannot reach great lengths: the last column is the mean number of tokens after the first.
"T = {temperature}" samples at that temperature, model and head choosing with the same Gumbel noise.

{table}

"all" is the tokens of all answers over all steps.

## Train again

`python training/head.py` (see `training/README.md`).
"""


def config(head: Head) -> dict:
    target = head.shape.target
    return {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "dtype": "float16", "torch_dtype": "float16",
        "vocab_size": target.vocab, "draft_vocab_size": head.shape.vocab, "hidden_size": target.hidden,
        "target_hidden_size": target.hidden, "intermediate_size": head.shape.inner, "num_hidden_layers": 1,
        "num_attention_heads": target.heads, "num_key_value_heads": target.kv_heads, "head_dim": target.head_dim,
        "hidden_act": "silu", "max_position_embeddings": target.context, "rms_norm_eps": target.norm_eps,
        "rope_theta": target.rope_theta, "rope_scaling": None, "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": False, "norm_before_residual": False,
        "eagle_aux_hidden_state_layer_ids": list(head.shape.streams),  # here counted as vLLM does; in eagle_config it would be one less
        "eagle_config": {"use_aux_hidden_state": True, "norm_before_fc": False},
        "quantization_config": QUANTIZATION | {"ignore": []},
    }


def export(head: Head, to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    (to / "config.json").write_text(json.dumps(config(head), indent=2) + "\n")
    save_file(compressed(head.state_dict()), to / "model.safetensors", metadata={"format": "pt"})


def load_head(folder: Path, target: Decoder) -> Head:
    """The head of an exported folder, in f32."""
    written = json.loads((folder / "config.json").read_text())
    streams = tuple(written["eagle_aux_hidden_state_layer_ids"])
    head = Head(HeadShape(target.shape, written["intermediate_size"], written["draft_vocab_size"], streams))
    head.load_state_dict(weights(folder / "model.safetensors"))
    return head.eval().requires_grad_(False)


def table(greedy: list[Rounds], sampled: list[Rounds]) -> str:
    columns = [lengths(greedy, k) for k in range(1, MOST + 1)] + [lengths(sampled, SAMPLED_DRAFTS)]
    names = [f"k = {k}" for k in range(1, MOST + 1)] + [f"T = {TEMPERATURE}, k = {SAMPLED_DRAFTS}"]
    lines = ["| Task | Answers | " + " | ".join(names) + " | Tokens |", "|---" * (len(names) + 3) + "|"]
    for task in sorted(columns[0], key=lambda name: (name == "all", name)):
        answers = [one for one in greedy if task in (one.task, "all")]
        come = sum(len(one.right) for one in answers) / len(answers)
        name = f"**{task}**" if task == "all" else task
        lines.append(f"| {name} | {len(answers)} | " + " | ".join(f"{column[task]:.2f}" for column in columns) + f" | {come:.1f} |")
    return "\n".join(lines)


def write_card(target: Decoder, chat: Chat, folder: Path, model_folder: Path, training: str) -> None:
    """Measures the exported head and writes its card."""
    head = load_head(folder, target)
    greedy, sampled = (list(rounds(target, head, chat, PER_TASK, temperature, MOST)) for temperature in (0.0, TEMPERATURE))
    measured = table(greedy, sampled)
    print(measured)
    size, of_target = ((at / "model.safetensors").stat().st_size for at in (folder, model_folder))
    (folder / "README.md").write_text(CARD.format(
        parameters=sum(p.numel() for p in head.parameters()), inner=head.shape.inner, vocab=head.shape.vocab,
        streams=", ".join(map(str, head.shape.streams)), size=size, share=size / of_target, training=training,
        per_task=PER_TASK, temperature=TEMPERATURE, table=measured,
    ))

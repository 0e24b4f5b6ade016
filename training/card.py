"""Measure the exported model and write its card."""

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer

from evaluate import as_int4, exact_match, rates, stories
from export import load
from knowledge import facts
from paths import BUILD, MODEL
from stories import MORALS, PLOTS
from tokens import Chat

PER_TASK = 100
STORIES = 60

CARD = """---
license: mit OR apache-2.0
language: en
pipeline_tag: text-generation
---

# Tabloom's built-in model

A very small chat model that the demo page runs offline. It knows a closed world: short stories, some {facts} facts, sums with
numbers up to 100, word games, small talk. To anything else it says politely that it does not know.

- **Architecture**: Llama (`LlamaForCausalLM`), {parameters:,} parameters: hidden size {hidden}, {layers} layers, {heads} heads of
  {head_dim} with {kv_heads} KV heads, MLP {inner}, tied embeddings, vocabulary {vocab}, context {context} tokens.
- **Weights**: int4 in groups of 32, symmetric (compressed-tensors `pack-quantized`); embeddings and norms in f16.
  {size:.1f} MB in all. The last quarter of the training ran with int4 weights, so that nothing is lost by them.
- **Tokenizer**: byte-level BPE; every digit is a token of its own. ChatML-like template (`<|im_start|>`, `<|im_end|>`).
- **Data**: chats made by a seeded program (`training/`): {seen:.0f} M tokens, none of them written by people or by other models.
- **Licence**: MIT OR Apache-2.0.

## Held-out questions

A question is held out by a hash of its text, so it occurs nowhere in training, not in any chat. For facts this holds out
phrasings: the fact itself is taught in other words. Sums and differences of two numbers above ten with no zero at their ends are
held out in all phrasings and, for sums, in both orders; word lists to sort, reverse or count are held out in all phrasings.
Follow-ups are held out together with what they follow. An answer counts when it is right letter for letter, greedily decoded.

{table}

## Stories

{good} of {told} stories for held-out requests (int4, sampled with the published temperature) pass every check: pronouns agree with
the hero's name, no name changes, hero and name are those asked for, nothing is repeated, and the story ends with its moral.{wrong}
They follow {plots} of the {known_plots} plots. Two of them:

{samples}

## Limits

It knows nothing beyond its small world, and what it says there may be wrong too: the table shows where, mostly in sorting, spelling,
questions to be answered with yes or no, and small talk in words it has not met. Greedily told stories are much alike. English
only. Arithmetic beyond 100, code, translation, advice and news are out of its domain. It is made to show an engine at work, not
to be relied on.

## Retrain

`pip install -r training/requirements.txt && python training/make.py`: under two hours on two cores (`training/README.md`).
"""


def table(f32: dict[str, tuple[int, int]], int4: dict[str, tuple[int, int]]) -> str:
    lines = ["| Task | Questions | f32 | int4 |", "|---|---|---|---|"]
    for task in sorted(f32, key=lambda name: (name == "all", name)):
        (right, asked), (right4, _) = f32[task], int4[task]
        name = f"**{task}**" if task == "all" else task
        lines.append(f"| {name} | {asked} | {right / asked:.1%} | {right4 / asked:.1%} |")
    return "\n".join(lines)


def write(folder: Path, model_folder: Path) -> None:
    model = load(folder)
    chat = Chat(Tokenizer.from_file(str(folder / "tokenizer.json")))
    small = as_int4(model)
    rows = table(rates(exact_match(model, chat, PER_TASK)), rates(exact_match(small, chat, PER_TASK)))
    print(rows)
    told = stories(model_folder, STORIES)
    faulty = [fault for _, _, wrong in told for fault in wrong]
    counted = ", ".join(f"{fault}: {faulty.count(fault)}" for fault in sorted(set(faulty)))
    flawless = [f"> **{request}**\n>\n> {text}" for request, text, wrong in told if not wrong]
    print(f"stories: {len(flawless)} of {len(told)} without a fault; {counted}")
    size = sum(file.stat().st_size for file in model_folder.iterdir() if file.suffix in (".json", ".safetensors")) / 1e6
    text = CARD.format(
        facts=len(facts()), parameters=sum(p.numel() for p in model.parameters()), size=size,
        seen=torch.load(folder / "checkpoint.pt")["seen"] / 1e6, table=rows, told=len(told), good=len(flawless),
        plots=len({moral for _, text, _ in told for moral in MORALS.values() if text.endswith(moral + ".")}), known_plots=len(PLOTS),
        wrong=f" ({counted}.)" if counted else "", samples="\n\n".join(flawless[:2]), **model.shape.as_dict(),
    )
    (model_folder / "README.md").write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=BUILD, help="where the checkpoint is")
    parser.add_argument("--model", type=Path, default=MODEL, help="the exported folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    write(options.folder, options.model)

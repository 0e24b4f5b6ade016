"""Goldens for the end-to-end tests: chats with the greedy answers that transformers gives.

transformers reads the exported folder, decompresses its int4 weights and computes in f32.
The answers are compared with those of the trainer's own model on the way.
"""

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from evaluate import answer, as_int4
from export import load
from paths import BUILD, GOLDENS, MODEL
from tokens import Chat

CHATS = [  # system prompt, what the user says turn by turn
    (None, ["What is the capital of France?"]),
    (None, ["What is 27 + 15?"]),
    (None, ["who are you"]),
    (None, ["What is the plural of mouse?", "And of child?"]),
    ("You are a helpful assistant.", ["My name is Anna.", "What is 6 times 7?", "What is my name?"]),
    (None, ["Tell me a short story about a fox."]),
    (None, ["What is the weather in Paris?"]),
]


def golden(model, tokenizer, own, chat: Chat, system: str | None, said: list[str]) -> dict:
    messages = [{"role": "system", "content": system}] if system else []
    for i, text in enumerate(said):
        messages.append({"role": "user", "content": text})
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
        assert ids[0].tolist() == chat.prompt(messages)
        with torch.no_grad():
            out = model.generate(ids, do_sample=False, temperature=None, top_p=None, max_new_tokens=400)[0, ids.shape[1] :]
        text = tokenizer.decode(out, skip_special_tokens=True)
        assert text == answer(own, chat, messages), text
        if i + 1 < len(said):
            messages.append({"role": "assistant", "content": text})
    return {"messages": messages, "prompt": prompt, "prompt_ids": ids[0].tolist(), "answer": text, "answer_ids": out.tolist()}


def write(folder: Path, model_folder: Path, to: Path) -> None:
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    own = as_int4(load(folder))
    chat = Chat(Tokenizer.from_file(str(folder / "tokenizer.json")))
    goldens = [golden(model, tokenizer, own, chat, *said) for said in CHATS]
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text("[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in goldens) + "\n]\n")
    for one in goldens:
        print(one["messages"][-1]["content"], "->", one["answer"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=BUILD, help="where the checkpoint is")
    parser.add_argument("--model", type=Path, default=MODEL, help="the exported folder")
    parser.add_argument("--to", type=Path, default=GOLDENS)
    options = parser.parse_args()
    write(options.folder, options.model, options.to)

"""How many held-out questions are answered letter for letter, per task; and whether stories hold together."""

import copy
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from data import held_out_cases
from model import Decoder, dequantised, int4
from stories import BOYS, GIRLS, KINDS, faults
from tokens import Chat

Results = list[tuple[str, bool]]  # task, answered exactly


@torch.no_grad()
def exact_match(model: Decoder, chat: Chat, per_task: int, seed: int = 7) -> Results:
    """Greedy answers equal the right ones exactly when every right token is the likeliest after those before it.

    So one pass over prompt and answer shows it, without generating. Stories have many right answers and are left out.
    """
    results = []
    for task, messages, answer in held_out_cases(seed, per_task):
        if task == "story":
            continue
        prompt = chat.prompt(messages)
        wanted = chat.encode(answer) + [chat.end]
        hidden = model(torch.tensor([prompt + wanted[:-1]]))
        chosen = model.logits(hidden[0, len(prompt) - 1 :]).argmax(-1)
        results.append((task, chosen.tolist() == wanted))
    return results


def rates(results: Results) -> dict[str, tuple[int, int]]:
    """(right, asked) of each task, and of "all"."""
    table = {}
    for task, right in results:
        for name in (task, "all"):
            good, asked = table.get(name, (0, 0))
            table[name] = (good + right, asked + 1)
    return table


@torch.no_grad()
def answer(model: Decoder, chat: Chat, messages: list[dict[str, str]], limit: int = 300) -> str:
    """The greedy answer."""
    prompt = chat.prompt(messages)
    ids = list(prompt)
    while len(ids) - len(prompt) < limit and ids[-1] != chat.end or len(ids) == len(prompt):
        ids.append(int(model.logits(model(torch.tensor([ids]))[0, -1]).argmax()))
    return chat.tokenizer.decode(ids[len(prompt) :])


def as_int4(model: Decoder) -> Decoder:
    """The model with the weights that the exported file holds: int4 products, f16 embeddings and norms."""
    out = copy.deepcopy(model)
    for name, weight in out.named_parameters():
        rounded = dequantised(*int4(weight.detach())) if name.endswith("_proj.weight") else weight.detach().half().float()
        weight.data.copy_(rounded)
    return out


@torch.no_grad()
def stories(model_folder: Path, count: int) -> list[tuple[str, str, list[str]]]:
    """Request, story and its faults, for held-out requests.

    transformers tells them from the exported folder, sampled as its generation config says: greedily they would be much alike.
    """
    torch.manual_seed(0)
    cases = [messages for task, messages, _ in held_out_cases(11, 3 * count) if task == "story" and len(messages) == 1][:count]
    tokenizer = AutoTokenizer.from_pretrained(model_folder, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    prompts = tokenizer.apply_chat_template(cases, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True)
    told = model.generate(**prompts, top_k=0, max_new_tokens=300)
    texts = tokenizer.batch_decode(told[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True)
    return [(case[0]["content"], text, story_faults(case[0]["content"], text)) for case, text in zip(cases, texts)]


def story_faults(request: str, text: str) -> list[str]:
    """The faults of the telling, and where it leaves what was asked for."""
    wrong = faults(text)
    asked = request.rstrip(".?").removesuffix(", please").split(" about ")[1].split()
    if len(asked) > 1 and asked[1] in KINDS and asked[1] not in text:
        wrong.append("another hero than asked for")
    if any(name in asked and name not in text for name in GIRLS + BOYS):
        wrong.append("another name than asked for")
    return wrong

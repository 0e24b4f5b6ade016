"""Greedy answers of published models, by transformers in f32 on their dequantised weights.

    python golden_published_models.py ../../target/real/models

writes `real/models.json`: for each file a list of {text or messages, ids, greedy, answer}. `ids` is
the prompt, `greedy` its continuation by 48 tokens, `answer` the text of it up to an end token.

A continuation is compared exactly, so no step of it may be a near tie: the script refuses a prompt
where the two best logits are closer than 0.02.
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

COUNT = 48
MARGIN = 0.02
PROMPTS = {
    "SmolLM2-135M-Instruct.Q4_1.gguf": [
        {"messages": [{"role": "user", "content": "What is the capital of France?"}]},
        {
            "messages": [
                {"role": "system", "content": "You are a helpful cook."},
                {"role": "user", "content": "How do I boil an egg?"},
            ]
        },
        {"text": "def fibonacci(n):\n"},
    ],
    "gemma-3-270m.Q4_K_M.gguf": [
        {"text": "The quick brown fox"},
        {"text": "<table>\n  <tr>\n    <td>"},
        {"text": "def fibonacci(n):\n"},
    ],
}


@torch.inference_mode()
def greedy(model, ids):
    """The continuation of `ids`, and the least distance of the two best logits on the way."""
    found, closest, past = [], float("inf"), None
    rows = torch.tensor([ids])
    for _ in range(COUNT):
        output = model(rows, past_key_values=past, use_cache=True)
        past = output.past_key_values
        best = output.logits[0, -1].topk(2)
        closest = min(closest, float(best.values[0] - best.values[1]))
        found.append(int(best.indices[0]))
        rows = best.indices[:1].view(1, 1)
    return found, closest


def main(folder):
    goldens = {}
    for file, prompts in PROMPTS.items():
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
        goldens[file] = []
        for prompt in prompts:
            if "messages" in prompt:
                ids = tokenizer.apply_chat_template(
                    prompt["messages"], add_generation_prompt=True, return_dict=False
                )
            else:
                ids = tokenizer(prompt["text"])["input_ids"]
            continuation, closest = greedy(model, ids)
            ended = [*continuation, tokenizer.eos_token_id].index(tokenizer.eos_token_id)
            answer = tokenizer.decode(continuation[:ended])
            print(file, closest, repr(answer))
            goldens[file].append({**prompt, "ids": ids, "greedy": continuation, "answer": answer})
            if closest < MARGIN:
                raise SystemExit(f"{file}: {prompt} has a near tie of {closest}")
    target = pathlib.Path(__file__).parent / "real" / "models.json"
    lines = [
        f"{json.dumps(file)}: [\n" + ",\n".join(json.dumps(golden, ensure_ascii=False) for golden in list) + "\n]"
        for file, list in goldens.items()
    ]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")


main(pathlib.Path(sys.argv[1]).resolve())

"""Embeddings by transformers: pooled hidden states behind the model's last norm, of length 1.

`mean` averages all positions, `last` takes the last one. They are made of the
prompts in golden.json for a few models, and of texts for the built-in model.
"""

import json
from pathlib import Path

import torch
from golden_models import load
from transformers import AutoTokenizer

MODELS = ["llama3_bf16", "qwen3_f32"]
BUILT_IN = Path(__file__).parents[2] / "www" / "model"
TEXTS = ["A fox ran into the forest.", "What do you like to eat?"]


def write(out):
    """Writes embeddings.json; the models in `out` are there already."""
    prompts = {name: json.loads((out / name / "golden.json").read_text())["tokens"] for name in MODELS}
    tokenizer = AutoTokenizer.from_pretrained(BUILT_IN)
    model = load(BUILT_IN)
    golden = {
        "prompts": {name: embed(load(out / name), tokens) for name, tokens in prompts.items()},
        "texts": [{"text": text} | embed(model, tokenizer(text)["input_ids"]) for text in TEXTS],
    }
    (out / "embeddings.json").write_text(json.dumps(golden) + "\n")


@torch.no_grad()
def embed(model, tokens):
    """Returns the token count and the embeddings by pooling, each [hidden]."""
    states = model.base_model(torch.tensor([tokens])).last_hidden_state[0]
    pooled = {"mean": states.mean(0), "last": states[-1]}
    vectors = {pooling: torch.nn.functional.normalize(vector, dim=0).tolist() for pooling, vector in pooled.items()}
    return {"tokens": len(tokens)} | {pooling: [round(v, 7) for v in vector] for pooling, vector in vectors.items()}

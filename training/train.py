"""Train the model on so many tokens of fresh chats. Stop it at any moment: it goes on from its last checkpoint."""

import argparse
import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

import tokens
from data import conversation
from evaluate import exact_match, rates
from model import Decoder, Shape, int4_weights
from muon import Muon
from paths import BUILD

TOKENS_PER_STEP = 4096
ROUND = 16  # rows of a batch are a multiple of it
PEAK_RATE = 4e-3
TOKENS = 25_000_000
WARM_UP = 0.02  # of the tokens
INT4_FROM = 0.75  # of the tokens; the weights then learn to live as int4


def batches(chat: tokens.Chat, rng: Random, context: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Ids [batch, rows] and targets of the same shape, -100 where nothing is learnt; chats of like length share a batch.

    Few distinct shapes: torch keeps kernels for each.
    """
    buckets: dict[int, list] = {}
    while True:
        ids, learnt = chat.ids(conversation(rng))
        rows = min(context, -(-len(ids) // ROUND) * ROUND)
        bucket = buckets.setdefault(rows, [])
        bucket.append((ids[:rows], learnt[:rows]))
        if len(bucket) == TOKENS_PER_STEP // rows:
            yield batch(buckets.pop(rows), rows, chat.pad)


def batch(chats: list[tuple[list[int], list[bool]]], rows: int, pad: int) -> tuple[Tensor, Tensor]:
    x = torch.full((len(chats), rows), pad)
    y = torch.full((len(chats), rows), -100)
    for i, (ids, learnt) in enumerate(chats):
        x[i, : len(ids)] = torch.tensor(ids)
        y[i, : len(ids) - 1] = torch.where(torch.tensor(learnt[1:]), torch.tensor(ids[1:]), -100)
    return x, y


def optimizers(model: Decoder, dtype: torch.dtype) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for embeddings and norms."""
    matrices = [p for p in model.layers.parameters() if p.dim() == 2]
    others = [p for name, p in model.named_parameters() if p.dim() == 1 or name.startswith("embed")]
    return [
        Muon(matrices, lr=PEAK_RATE, weight_decay=0.1, dtype=dtype),
        torch.optim.AdamW(others, lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def rate(progress: float) -> float:
    """Cosine from the peak to a hundredth of it, after a short warm-up."""
    if progress < WARM_UP:
        return PEAK_RATE * (progress / WARM_UP + 0.01)
    return PEAK_RATE * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1, (progress - WARM_UP) / (1 - WARM_UP)))))


def fastest_type() -> torch.dtype:
    """bfloat16 where the CPU multiplies it faster than float32: without instructions for it, it is many times slower."""

    def seconds(dtype: torch.dtype) -> float:
        x = torch.ones(512, 512, dtype=dtype)
        x @ x
        began = time.perf_counter()
        x @ x
        return time.perf_counter() - began

    return min(torch.float32, torch.bfloat16, key=seconds)


def loss_of(model: Decoder, forward, x: Tensor, y: Tensor, dtype: torch.dtype) -> Tensor:
    wanted = (y.flatten() >= 0).nonzero().squeeze(1)
    wanted = F.pad(wanted, (0, -len(wanted) % 256))  # row 0 is a header, whose target is -100
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        logits = model.logits(forward(x).flatten(0, 1)[wanted])
    return F.cross_entropy(logits.float(), y.flatten()[wanted])


def train(folder: Path, count: int, threads: int, seed: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    shape = Shape()
    if not (folder / "tokenizer.json").exists():
        tokens.train(shape.vocab).save(str(folder / "tokenizer.json"))
    chat = tokens.Chat(Tokenizer.from_file(str(folder / "tokenizer.json")))

    model = Decoder(shape)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    dtype = fastest_type()
    print(f"computes in {dtype}")
    opts = optimizers(model, dtype)
    step, seen, spent = 0, 0, 0.0
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        for opt, saved in zip(opts, state["optimizers"]):
            opt.load_state_dict(saved)
        step, seen, spent = state["step"], state["seen"], state["spent"]
        print(f"goes on at step {step}, after {spent / 60:.1f} minutes")

    def save() -> None:
        state = {"model": model.state_dict(), "optimizers": [opt.state_dict() for opt in opts], "shape": shape.as_dict(),
                 "step": step, "seen": seen, "spent": spent}
        torch.save(state, folder / "checkpoint.new")
        (folder / "checkpoint.new").replace(checkpoint)

    forward = torch.compile(model, dynamic=True)
    mean = None
    began = time.monotonic() - spent
    for x, y in batches(chat, Random(f"{seed} {step}"), shape.context):
        if seen >= count:
            break
        progress = seen / count
        with int4_weights(model) if progress >= INT4_FROM else nullcontext(), torch.enable_grad():
            loss = loss_of(model, forward, x, y, dtype)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.param_groups[0]["lr"] = rate(progress)
            opt.step()
            opt.zero_grad(set_to_none=True)
        step += 1
        seen += x.numel()
        spent = time.monotonic() - began
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if step % 50 == 0:
            print(f"step {step}  {spent / 60:.1f} min  {seen / 1e6:.2f} of {count / 1e6:.0f} M tokens  {seen / spent:.0f} tokens/s  loss {mean:.4f}", flush=True)
        if step % 100 == 0:
            save()
        if step % 500 == 0:
            table = rates(exact_match(model, chat, per_task=12))
            print(f"held out: {table['all'][0]} of {table['all'][1]}", flush=True)
    save()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=BUILD, help="where tokenizer and checkpoint are kept")
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    train(options.folder, options.tokens, options.threads, options.seed)

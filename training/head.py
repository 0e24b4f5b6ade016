"""Train the draft head of the exported model on its own answers."""

import argparse
import math
import time
from collections import Counter
from contextlib import nullcontext
from itertools import islice, repeat
from pathlib import Path
from random import Random

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from answers import SAMPLED, own_chats
from drafting import lengths, rounds
from eagle import Head, HeadShape, taken
from exported import load_exported
from head_batches import Answered, Batch, batch, batches
from head_export import export, write_card
from model import Decoder, int4_weights
from muon import Muon
from paths import BUILD, DRAFT, MODEL
from tokens import Chat

CHATS = 2000  # answered at a time, and kept in one file
PARTS = 8
CHATS_READ_AT_ONCE = 32
DRAFTS_PER_STEP = 1024  # rows of answers at which drafts begin
UNROLLED = 6
UNROLLED_AT_FIRST = 3  # in the first half of the steps
STEP_WEIGHT = 0.8  # of the loss of each draft against that of the draft before
WASTED_WEIGHT = 0.2  # of the loss of a draft behind a wrong one
PEAK_RATE = 4e-3
STEPS = 3000
WARM_UP = 0.02  # of the steps
INT4_FROM = 0.6  # of the steps; the weights then learn to live as int4


def answered(target: Decoder, chat: Chat, folder: Path, parts: int) -> list[Answered]:
    """Training chats with the target's own answers; those of earlier runs are read."""
    chats = []
    for part in range(parts):
        file = folder / f"answers-{part}.pt"
        if not file.exists():
            torch.save(own_chats(target, chat, Random(f"answers {part}"), CHATS), file)
        chats += torch.load(file)
    return chats


def new_head(target: Decoder, shape: HeadShape, chats: list[Answered]) -> Head:
    """Drafts the commonest tokens of the answers, and begins with the target's own view of them."""
    said = Counter(token for ids, learnt in chats for token, mine in zip(ids, learnt) if mine)
    head = Head(shape)
    head.draft_in(torch.tensor([token for token, _ in said.most_common(shape.vocab)]))
    with torch.no_grad():
        for name, weight in head.named_parameters():
            if weight.dim() == 2:
                weight.normal_(std=0.02 if name.endswith(("o_proj.weight", "down_proj.weight")) else 0.05)
        head.lm_head.weight.copy_(target.embed_tokens.weight[head.drafted()])
        head.norm.weight.copy_(target.norm.weight)
    return head


@torch.no_grad()
def kept_streams(target: Decoder, shape: HeadShape, chats: list[Answered]) -> list[Tensor]:
    """What the head reads of each chat, [rows, 3 * hidden] in f16: the target runs over it but once."""
    kept = [torch.empty(0)] * len(chats)
    by_length = sorted(range(len(chats)), key=lambda i: len(chats[i][0]))
    for begin in range(0, len(chats), CHATS_READ_AT_ONCE):
        which = by_length[begin : begin + CHATS_READ_AT_ONCE]
        streams = target.streams(pad_sequence([torch.tensor(chats[i][0]) for i in which], batch_first=True))
        chosen = torch.cat([streams[layer] for layer in shape.streams], -1).half()
        for i, rows in zip(which, chosen):
            kept[i] = rows[: len(chats[i][0])].clone()
    return kept


def loss_of(head: Head, target: Decoder, begun: Batch, streams: Tensor, unrolled: int) -> Tensor:
    """Cross entropy with the target's distribution over the tokens that can be drafted, where its likeliest is among them."""
    with torch.no_grad():
        last = taken(F.pad(streams, (0, 0, 0, 1)), begun.rows + 1)[..., -target.shape.hidden :]
        logits = target.logits(target.norm(last))  # behind token 1 of each row's drafts
        draftable = head.t2d[logits.argmax(-1)]
        wanted = logits[..., head.drafted()].softmax(-1)
        embedded = target.embed_tokens(F.pad(begun.ids[:, 1:], (0, unrolled)))
    loss, weights, useful = 0.0, 0.0, torch.ones_like(begun.rows, dtype=torch.bool)
    for step, logits in enumerate(head.unroll(head.fc(streams), embedded, begun.rows, unrolled)):
        count = begun.rows.shape[1] - step  # within an answer, row c + step stands where draft `step` of row c does
        counts = (step < begun.reach[:, :count]) & draftable[:, step:]
        entropy = -(wanted[:, step:] * logits[:, :count].log_softmax(-1)).sum(-1)
        weight = STEP_WEIGHT**step * counts * torch.where(useful[:, :count], 1.0, WASTED_WEIGHT)
        loss = loss + (entropy * weight).sum()
        weights = weights + weight.sum()
        useful = useful[:, :count] & (logits[:, :count].argmax(-1) == wanted[:, step:].argmax(-1))
    return loss / weights


def optimizers(head: Head) -> list[torch.optim.Optimizer]:
    """Muon for the matrices within, AdamW for the vocabulary's and for norms."""
    inner = [p for name, p in head.named_parameters() if p.dim() == 2 and not name.startswith("lm_head")]
    others = [p for name, p in head.named_parameters() if p.dim() == 1 or name.startswith("lm_head")]
    return [
        Muon(inner, lr=PEAK_RATE, weight_decay=0.05, dtype=torch.float32),
        torch.optim.AdamW(others, lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def rate(progress: float) -> float:
    """Cosine from the peak to a hundredth of it, after a short warm-up."""
    if progress < WARM_UP:
        return PEAK_RATE * (progress / WARM_UP + 0.01)
    return PEAK_RATE * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1, (progress - WARM_UP) / (1 - WARM_UP)))))


def train(target: Decoder, chat: Chat, chats: list[Answered], head: Head, steps: int, seed: int) -> None:
    print(f"{sum(p.numel() for p in head.parameters()):,} parameters, {sum(len(ids) for ids, _ in chats):,} tokens")
    streams = kept_streams(target, head.shape, chats)
    opts = optimizers(head)
    rng, mean, began = Random(seed), None, time.monotonic()
    order = (which for _ in repeat(None) for which in batches(chats, rng, DRAFTS_PER_STEP))
    for step, which in enumerate(islice(order, steps)):
        progress = step / steps
        with int4_weights(head) if progress >= INT4_FROM else nullcontext(), torch.enable_grad():
            read = pad_sequence([streams[i] for i in which], batch_first=True).float()
            loss = loss_of(head, target, batch([chats[i] for i in which]), read, UNROLLED_AT_FIRST if progress < 0.5 else UNROLLED)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        for opt in opts:
            opt.param_groups[0]["lr"] = rate(progress)
            opt.step()
            opt.zero_grad(set_to_none=True)
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if step % 50 == 49:
            print(f"step {step + 1}  {(time.monotonic() - began) / 60:.1f} min  loss {mean:.4f}", flush=True)
        if step % 500 == 499:
            with int4_weights(head):
                measured = list(rounds(target, head, chat, 6, 0.0, 5))
            print(f"held out, 5 drafts: {lengths(measured, 5)['all']:.2f} tokens a step", flush=True)


def described(chats: list[Answered], steps: int) -> str:
    said = sum(sum(mine) for _, mine in chats)
    return (f"{steps:,} steps on {said:,} tokens that the exported model itself answered to training questions, half of the chats "
            f"greedily\n  and half at temperature {SAMPLED}; {UNROLLED} drafts unrolled; the last {1 - INT4_FROM:.0%} of the steps with int4 weights.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=BUILD, help="where answers and the head's exact weights are kept")
    parser.add_argument("--model", type=Path, default=MODEL, help="the exported model")
    parser.add_argument("--to", type=Path, default=DRAFT, help="the folder to write")
    parser.add_argument("--parts", type=int, default=PARTS, help=f"how many times {CHATS} chats to learn from")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--go-on", action="store_true", help="begin with the head of the last run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    options.folder.mkdir(parents=True, exist_ok=True)
    target = load_exported(options.model)
    chat = Chat(Tokenizer.from_file(str(options.model / "tokenizer.json")))
    chats = answered(target, chat, options.folder, options.parts)
    head = new_head(target, HeadShape(target.shape), chats)
    if options.go_on:
        head.load_state_dict(torch.load(options.folder / "head.pt"))
    train(target, chat, chats, head, options.steps, options.seed)
    torch.save(head.state_dict(), options.folder / "head.pt")
    export(head, options.to)
    write_card(target, chat, options.to, options.model, described(chats, options.steps))

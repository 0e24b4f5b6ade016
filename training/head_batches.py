"""Answered chats in batches: where drafts begin in them, and how far they can reach."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

Answered = tuple[list[int], list[bool]]  # ids, and which of them the model said

ROUND = 8  # chats of a batch differ in the tokens of their answers by less


@dataclass(frozen=True)
class Batch:
    ids: Tensor  # [batch, rows]
    rows: Tensor  # [batch, chosen]: drafts begin here; token row + 1 is the last one known
    reach: Tensor  # [batch, chosen]: how many tokens of the same answer come after that one; 0 where a row is padding


def batch(chats: list[Answered]) -> Batch:
    length = max(len(ids) for ids, _ in chats)
    ids, learnt = torch.zeros(len(chats), length, dtype=torch.int64), torch.zeros(len(chats), length)
    for i, (tokens, said) in enumerate(chats):
        ids[i, : len(tokens)], learnt[i, : len(said)] = torch.tensor(tokens), torch.tensor(said).float()
    run = torch.zeros(len(chats), length + 1)  # answer tokens from here to the end of the answer
    for n in reversed(range(length)):
        run[:, n] = (run[:, n + 1] + 1) * learnt[:, n]
    run = run.long()
    begins = (run[:, 1:] > 1).long()
    rows = begins.sort(dim=1, descending=True, stable=True).indices[:, : begins.sum(1).max()]
    return Batch(ids, rows, (run[:, 1:].gather(1, rows) - 1).clamp(min=0))


def batches(chats: list[Answered], rng: Random, drafts: int) -> Iterator[list[int]]:
    """Every chat once, in random order, batched with chats of as long answers until about so many drafts begin in them."""
    buckets: dict[int, list[int]] = {}
    for i in rng.sample(range(len(chats)), len(chats)):
        said = sum(chats[i][1])
        bucket = buckets.setdefault(said // ROUND, [])
        bucket.append(i)
        if len(bucket) * (said // ROUND + 1) * ROUND >= drafts:
            yield buckets.pop(said // ROUND)

"""Whether second choices are worth their rows: chains of drafts against chains that have the head's second choices beside them."""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from drafting import held_out_answers
from eagle import Head
from exported import load_exported
from head_batches import Batch
from head_export import load_head
from model import Decoder
from paths import DRAFT, MODEL
from tokens import Chat

MOST = 7  # drafts of a round
PER_TASK = 12
NOT_REACHED = -1
TREES = {4: [(3, 0), (2, 1)], 6: [(5, 0), (3, 2), (4, 1)], 8: [(7, 0), (4, 3), (5, 2), (6, 1)]}  # rows: drafts in a row, second choices


@torch.no_grad()
def ranks(target: Decoder, head: Head, begun: Batch) -> Tensor:
    """The place of the target's token among the head's choices, 0 for the likeliest, for each draft of a round, [batch, chosen, MOST].

    It is `NOT_REACHED` where a draft before is wrong or the answer is over, and beyond all choices for tokens that cannot be drafted.
    """
    features = head.features(target.streams(begun.ids))
    embedded = target.embed_tokens(F.pad(begun.ids[:, 1:], (0, MOST)))
    own = torch.full((target.shape.vocab,), -1).scatter(0, head.drafted(), torch.arange(head.shape.vocab))  # the head's id of each token
    reached, found = begun.reach > 0, []
    for step, logits in enumerate(head.unroll(features, embedded, begun.rows, MOST)):
        token = own[F.pad(begun.ids, (0, MOST + 1)).gather(1, begun.rows + 2 + step)].unsqueeze(-1)
        likelier = (logits > logits.gather(-1, token.clamp(min=0))).sum(-1)
        rank = torch.where(token.squeeze(-1) < 0, head.shape.vocab, likelier)
        reached = reached & (step < begun.reach)
        found.append(torch.where(reached, rank, NOT_REACHED))
        reached = reached & (rank == 0)
    return torch.stack(found, -1)


def steps(answer: list[list[int]], drafts: int, seconds: int) -> int:
    """Steps for the rest of an answer, given the ranks of each round that could begin in it, with so many drafts in a row and a
    second choice beside each of the first `seconds` of them. Nothing follows a second choice."""
    at, count = 0, 0
    while at < len(answer):
        places = answer[at][:drafts]
        right = next((i for i, rank in enumerate(places) if rank != 0), len(places))
        by_second = right < min(seconds, len(places)) and places[right] == 1
        at, count = at + 1 + right + by_second, count + 1
    return count


def shares(measured: list[list[list[int]]]) -> list[float]:
    """How often the likeliest, second and third choice are right where all drafts before are."""
    reached = [rank for answer in measured for places in answer for rank in places if rank != NOT_REACHED]
    return [reached.count(rank) / len(reached) for rank in range(3)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=MODEL, help="the exported model")
    parser.add_argument("--head", type=Path, default=DRAFT, help="its head")
    parser.add_argument("--per-task", type=int, default=PER_TASK, help="held-out questions of each task")
    options = parser.parse_args()
    target = load_exported(options.model)
    head = load_head(options.head, target)
    chat = Chat(Tokenizer.from_file(str(options.model / "tokenizer.json")))
    measured = []
    for _, found, answered, _ in held_out_answers(target, chat, options.per_task, 0.0, MOST):
        measured += [rank[: len(answer) - 1].tolist() for answer, rank in zip(found, ranks(target, head, answered))]
    print("right, where all drafts before are:", ", ".join(f"{share:.1%}" for share in shares(measured)))
    tokens = sum(map(len, measured))
    for rows, trees in TREES.items():
        for drafts, seconds in trees:
            count = sum(steps(answer, drafts, seconds) for answer in measured)
            print(f"{rows} rows, {drafts} drafts, {seconds} second choices: {tokens / count:.2f} tokens a step")

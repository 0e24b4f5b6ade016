"""What drafts are worth: tokens for each step of the target, when it verifies k drafts of the head at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from answers import LIMIT, generate, gumbel
from data import held_out_cases
from eagle import Head
from head_batches import Batch, batch
from model import Decoder
from tokens import Chat

ANSWERS_AT_ONCE = 32


@dataclass(frozen=True)
class Rounds:
    """Of one answer: `right[r]` drafts in a row are the target's tokens when r + 1 tokens of the answer are known."""

    task: str
    right: list[int]

    def steps(self, k: int) -> int:
        """Steps of the target after that of the prompt, which gives the first token."""
        left, steps = self.right, 0
        while left:
            left, steps = left[min(left[0], k) + 1 :], steps + 1
        return steps


Answers = tuple[tuple[str, ...], list[list[int]], Batch, Tensor | None]  # tasks, tokens, the same behind their prompts, noise


@torch.no_grad()
def held_out_answers(target: Decoder, chat: Chat, per_task: int, temperature: float, most: int, seed: int = 7) -> Iterator[Answers]:
    """Answers to held-out questions, many at a time, where each round has at most so many drafts.

    Noise [batch, tokens of the answer, vocab] is there where the temperature is not 0.
    """
    cases = sorted((task, chat.prompt(messages)) for task, messages, _ in held_out_cases(seed, per_task))  # by task: alike in length
    for begin in range(0, len(cases), ANSWERS_AT_ONCE):
        tasks, prompts = zip(*cases[begin : begin + ANSWERS_AT_ONCE])
        noise = None
        if temperature:
            noise = gumbel((len(prompts), LIMIT + most, target.shape.vocab), torch.Generator().manual_seed(begin))  # of each token
        found = generate(target, chat, prompts, torch.full((len(prompts),), temperature), lambda n, going: noise[going, n])
        answered = batch([(prompt + answer, [False] * len(prompt) + [True] * len(answer)) for prompt, answer in zip(prompts, found)])
        yield tasks, found, answered, noise


def rounds(target: Decoder, head: Head, chat: Chat, per_task: int, temperature: float, most: int) -> Iterator[Rounds]:
    """Rounds of at most so many drafts for answers to held-out questions.

    Where the temperature is not 0, target and head choose with the same noise.
    """
    for tasks, found, answered, noise in held_out_answers(target, chat, per_task, temperature, most):
        for task, answer, right in zip(tasks, found, right_drafts(target, head, answered, most, temperature, noise)):
            yield Rounds(task, right[: len(answer) - 1].tolist())


@torch.no_grad()
def right_drafts(target: Decoder, head: Head, begun: Batch, most: int, temperature: float = 0.0, noise: Tensor | None = None) -> Tensor:
    """How many of so many drafts in a row are the target's tokens, [batch, chosen].

    A draft counts only when all before it in its round are the target's tokens, so every round that could begin is computed at
    once, each draft behind the target's own tokens. `noise` is [batch, tokens of the answer, vocab].
    """
    features = head.features(target.streams(begun.ids))
    embedded = target.embed_tokens(F.pad(begun.ids[:, 1:], (0, most)))
    all_right = begun.reach > 0
    right = torch.zeros_like(begun.reach)
    for step, logits in enumerate(head.unroll(features, embedded, begun.rows, most)):
        if noise is not None:
            logits = logits + temperature * noise[:, 1 + step : 1 + step + logits.shape[1]][..., head.drafted()]
        drafts = head.drafted()[logits.argmax(-1)]
        tokens = F.pad(begun.ids, (0, most + 1)).gather(1, begun.rows + 2 + step)
        all_right = all_right & (drafts == tokens) & (step < begun.reach)
        right = right + all_right
    return right


def lengths(measured: list[Rounds], k: int) -> dict[str, float]:
    """Tokens for each step of the target, of each task and of "all"."""
    tokens, steps = {}, {}
    for one in measured:
        for name in (one.task, "all"):
            tokens[name] = tokens.get(name, 0) + len(one.right)
            steps[name] = steps.get(name, 0) + one.steps(k)
    return {name: tokens[name] / steps[name] for name in tokens if steps[name]}

"""The model's own answers: many chats at once, with a KV cache."""

from collections.abc import Callable
from random import Random

import torch
from torch import Tensor

from data import conversation
from model import Decoder, rotated
from tokens import Chat

CHATS_AT_ONCE = 256
LIMIT = 300  # tokens of an answer
SAMPLED = 0.8  # the temperature of half of the chats; the others are greedy


class Cache:
    """Keys and values of all layers, [layers, batch, kv_heads, room, head_dim], of prompts padded at their left.

    Positions count the padding too, which changes nothing: rotary embeddings show distances alone.
    """

    def __init__(self, model: Decoder, padding: Tensor, room: int):
        shape = model.shape
        self.keys = torch.zeros(shape.layers, len(padding), shape.kv_heads, room, shape.head_dim)
        self.values = torch.zeros_like(self.keys)
        self.padding = padding  # [batch]
        self.used = 0

    def keep(self, chosen: Tensor) -> None:
        self.keys, self.values, self.padding = self.keys[:, chosen], self.values[:, chosen], self.padding[chosen]


def extend(model: Decoder, cache: Cache, ids: Tensor) -> Tensor:
    """Puts the tokens ids [batch, rows] behind those in the cache; returns the logits [batch, vocab] of the last."""
    rows, head_dim = ids.shape[1], model.shape.head_dim
    begin, end = cache.used, cache.used + rows
    cos, sin = model.cos[begin:end], model.sin[begin:end]
    places = torch.arange(end)
    hidden = (places > torch.arange(begin, end)[:, None]) | (places < cache.padding[:, None, None])  # [batch, rows, end]
    hidden &= places != torch.arange(begin, end)[:, None]  # padding sees itself, so that no row is empty
    x = model.embed_tokens(ids)
    for i, layer in enumerate(model.layers):
        attn, normed = layer.self_attn, layer.input_layernorm(x)
        q, k, v = (p(normed).unflatten(-1, (-1, head_dim)).transpose(1, 2) for p in (attn.q_proj, attn.k_proj, attn.v_proj))
        cache.keys[i, :, :, begin:end] = rotated(k, cos, sin)
        cache.values[i, :, :, begin:end] = v
        groups = q.shape[1] // k.shape[1]
        q = rotated(q, cos, sin).unflatten(1, (-1, groups)).flatten(2, 3)  # [batch, kv_heads, groups * rows, head_dim]
        scores = (q @ cache.keys[i, :, :, :end].transpose(-1, -2)).unflatten(2, (groups, -1)) * head_dim**-0.5
        shares = scores.masked_fill(hidden[:, None, None], -torch.inf).softmax(-1)
        mixed = (shares.flatten(2, 3) @ cache.values[i, :, :, :end]).unflatten(2, (groups, -1)).flatten(1, 2)
        x = x + attn.o_proj(mixed.transpose(1, 2).flatten(2))
        x = x + layer.mlp(layer.post_attention_layernorm(x))
    cache.used = end
    return model.logits(model.norm(x[:, -1]))


Noise = Callable[[int, Tensor], Tensor]  # (token of the answer, chats [batch]) -> [batch, vocab]


@torch.no_grad()
def generate(model: Decoder, chat: Chat, prompts: list[list[int]], temperatures: Tensor, noise: Noise, limit: int = LIMIT) -> list[list[int]]:
    """An answer to each prompt, its end included: at each token the argmax of logits + temperature * Gumbel noise."""
    longest = max(map(len, prompts))
    limit = min(limit, model.shape.context - longest)
    ids = torch.tensor([[chat.pad] * (longest - len(prompt)) + prompt for prompt in prompts])
    cache = Cache(model, torch.tensor([longest - len(prompt) for prompt in prompts]), longest + limit)
    answers: list[list[int]] = [[] for _ in prompts]
    going = torch.arange(len(prompts))  # the chats in the cache
    for n in range(limit):
        logits = extend(model, cache, ids)
        temperature = temperatures[going].unsqueeze(1)
        if temperature.any():
            logits = logits + temperature * noise(n, going)
        ids = logits.argmax(-1, keepdim=True)
        for i, token in zip(going.tolist(), ids.squeeze(1).tolist()):
            if not answers[i] or answers[i][-1] != chat.end:
                answers[i].append(token)
        unfinished = torch.tensor([answers[i][-1] != chat.end for i in going.tolist()])
        if not unfinished.any():
            break
        if unfinished.sum() <= 0.7 * len(going):
            cache.keep(unfinished)
            going, ids = going[unfinished], ids[unfinished]
    return answers


def gumbel(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.empty(shape).exponential_(generator=generator).log_().neg_()


def own_chats(model: Decoder, chat: Chat, rng: Random, count: int) -> list[tuple[list[int], list[bool]]]:
    """Training chats in which the model itself has answered: ids, and which of them it said, as `Chat.ids` gives them."""
    generator = torch.Generator().manual_seed(rng.getrandbits(63))
    to_say = [conversation(rng) for _ in range(count)]
    temperatures = torch.tensor([rng.choice([0.0, SAMPLED]) for _ in range(count)])
    chats: list[tuple[list[int], list[bool]]] = [([], []) for _ in range(count)]
    going = list(range(count))
    while going:
        for i in going:
            asked = next(n for n, message in enumerate(to_say[i]) if message["role"] == "assistant")
            add(chats[i], chat.prompt(to_say[i][:asked]), False)
            to_say[i] = to_say[i][asked + 1 :]
        going.sort(key=lambda i: len(chats[i][0]))
        for begin in range(0, len(going), CHATS_AT_ONCE):
            batch = going[begin : begin + CHATS_AT_ONCE]
            answers = generate(model, chat, [chats[i][0] for i in batch], temperatures[batch],
                               lambda n, kept: gumbel((len(kept), model.shape.vocab), generator))
            for i, answer in zip(batch, answers):
                add(chats[i], answer, True)
                add(chats[i], chat.newline, False)
        going = [i for i in going if to_say[i] and len(chats[i][0]) < model.shape.context // 2]
    return chats


def add(chat: tuple[list[int], list[bool]], ids: list[int], learnt: bool) -> None:
    chat[0].extend(ids)
    chat[1].extend([learnt] * len(ids))

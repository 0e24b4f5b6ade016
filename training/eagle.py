"""The draft head: one decoder layer in the shape of EAGLE-3 (Li et al. 2025), which drafts the tokens after the next one.

Its input at position i is the embedding of token i + 1, by the target's own table, and a feature of position i: three residual
streams of the target where that has computed them, else its own output one draft before. Parameter names are those of the
published heads.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model import Mlp, Shape, linear, rotated


@dataclass(frozen=True)
class HeadShape:
    target: Shape
    inner: int = 128
    vocab: int = 1280  # of the drafts
    streams: tuple[int, ...] = (1, 2, 4)  # the target's layers already applied to each


class HeadAttention(nn.Module):
    """Heads and their rotation are the target's: both share one paged cache."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.q_proj = linear(2 * shape.hidden, shape.heads * shape.head_dim)
        self.k_proj = linear(2 * shape.hidden, shape.kv_heads * shape.head_dim)
        self.v_proj = linear(2 * shape.hidden, shape.kv_heads * shape.head_dim)
        self.o_proj = linear(shape.heads * shape.head_dim, shape.hidden)


class HeadLayer(nn.Module):
    def __init__(self, shape: HeadShape):
        super().__init__()
        hidden, eps = shape.target.hidden, shape.target.norm_eps
        self.input_layernorm = nn.RMSNorm(hidden, eps)
        self.hidden_norm = nn.RMSNorm(hidden, eps)
        self.self_attn = HeadAttention(shape.target)
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps)
        self.mlp = Mlp(Shape(hidden=hidden, inner=shape.inner))


class Head(nn.Module):
    def __init__(self, shape: HeadShape):
        super().__init__()
        self.shape = shape
        target = shape.target
        self.fc = linear(len(shape.streams) * target.hidden, target.hidden)
        self.midlayer = HeadLayer(shape)
        self.norm = nn.RMSNorm(target.hidden, target.norm_eps)
        self.lm_head = linear(target.hidden, shape.vocab)
        self.register_buffer("d2t", torch.zeros(shape.vocab, dtype=torch.int64))  # token of the target = d + d2t[d]
        self.register_buffer("t2d", torch.zeros(target.vocab, dtype=torch.bool))  # which of the target's can be drafted
        frequencies = target.rope_theta ** (-torch.arange(0, target.head_dim, 2) / target.head_dim)
        angles = torch.outer(torch.arange(target.context), frequencies).repeat(1, 2)  # [context, head_dim]
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def draft_in(self, tokens: Tensor) -> None:
        """Makes these the tokens that can be drafted."""
        tokens = tokens.sort().values
        self.d2t.copy_(tokens - torch.arange(len(tokens)))
        self.t2d.zero_()[tokens] = True

    def drafted(self) -> Tensor:
        """The target's token of each of the head's, [vocab]."""
        return torch.arange(len(self.d2t)) + self.d2t

    def features(self, streams: list[Tensor]) -> Tensor:
        """What the head takes from the target's residual streams, each [batch, rows, hidden]."""
        return self.fc(torch.cat([streams[i] for i in self.shape.streams], -1))

    def joined(self, embedded: Tensor, features: Tensor) -> Tensor:
        return torch.cat((self.midlayer.input_layernorm(embedded), self.midlayer.hidden_norm(features)), -1)

    def heads(self, projection: nn.Linear, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """[batch, rows, 2 * hidden] -> [batch, heads, rows, head_dim], turned to `positions` [batch, rows] where given."""
        y = projection(x).unflatten(-1, (-1, self.shape.target.head_dim)).transpose(1, 2)
        return y if positions is None else rotated(y, self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1))

    def output(self, features: Tensor, mixed: Tensor) -> Tensor:
        """The layer behind its attention, whose result is [batch, heads, rows, head_dim]; not yet normalised."""
        x = features + self.midlayer.self_attn.o_proj(mixed.transpose(1, 2).flatten(2))
        return x + self.midlayer.mlp(self.midlayer.post_attention_layernorm(x))

    def logits(self, output: Tensor) -> Tensor:
        return self.lm_head(self.norm(output))

    def unroll(self, features: Tensor, embedded: Tensor, rows: Tensor, steps: int) -> list[Tensor]:
        """Logits [batch, chosen, vocab] of each of so many drafts in a row, begun at the chosen rows [batch, chosen].

        `features` [batch, rows, hidden] come from the target; `embedded` [batch, rows + steps - 1, hidden] holds in row i the
        embedding of token i + 1. All begin at once, as at training time (section 3.2 of the paper): draft j of row i stands at
        position i + j, and attends to the target's rows up to i and to drafts 1 to j of its own row.
        """
        attn, (batch, count, _) = self.midlayer.self_attn, features.shape
        places = torch.arange(count).expand(batch, -1)
        x = self.joined(embedded[:, :count], features)
        keys, values = self.heads(attn.k_proj, x, places), self.heads(attn.v_proj, x)
        future = places.unsqueeze(1) > rows.unsqueeze(2)  # [batch, chosen, rows]
        features, x = taken(features, rows), taken(x, rows)
        own_keys, own_values, out = [], [], []
        for step in range(steps):
            if step:
                x = self.joined(taken(embedded, rows + step), features)
                own_keys.append(self.heads(attn.k_proj, x, rows + step))
                own_values.append(self.heads(attn.v_proj, x))
            q = self.heads(attn.q_proj, x, rows + step)
            features = self.output(features, attended(q, keys, values, future, own_keys, own_values))
            out.append(self.logits(features))
        return out


def taken(x: Tensor, rows: Tensor) -> Tensor:
    """Rows [batch, chosen] of x [batch, rows, hidden]."""
    return x.gather(1, rows.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


def attended(q: Tensor, keys: Tensor, values: Tensor, hidden: Tensor, own_keys: list[Tensor], own_values: list[Tensor]) -> Tensor:
    """Attention of q [batch, heads, chosen, head_dim] to shared keys, where not hidden, and to row-wise keys of its own."""
    groups = q.shape[1] // keys.shape[1]
    grouped = q.unflatten(1, (-1, groups))  # [batch, kv_heads, groups, chosen, head_dim]
    shared = (grouped.flatten(2, 3) @ keys.transpose(-1, -2)).unflatten(2, (groups, -1))
    scores = [shared.masked_fill(hidden[:, None, None], -torch.inf)]
    scores += [(grouped * key.unsqueeze(2)).sum(-1, keepdim=True) for key in own_keys]
    shares = (torch.cat(scores, -1) * q.shape[-1] ** -0.5).softmax(-1)
    mixed = (shares[..., : keys.shape[2]].flatten(2, 3) @ values).unflatten(2, (groups, -1))
    for i, value in enumerate(own_values):
        mixed = mixed + shares[..., keys.shape[2] + i, None] * value.unsqueeze(2)
    return mixed.flatten(1, 2)

"""The decoder: the Llama architecture, as transformers' LlamaForCausalLM computes it, small enough to read in one go."""

from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GROUP = 32  # weights that share one int4 scale


@dataclass(frozen=True)
class Shape:
    vocab: int = 2048
    hidden: int = 192
    layers: int = 4
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 32
    inner: int = 576
    context: int = 1024
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5

    def as_dict(self) -> dict:
        return asdict(self)


def int4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Symmetric int4: q in [-8, 7] as [N, K], and the f16 scale of each group as [N, K / GROUP]."""
    groups = weight.float().unflatten(1, (-1, GROUP))
    scale = (groups.abs().amax(-1, keepdim=True) / 7.5).clamp(min=2**-14).half()
    q = (groups / scale.float()).round().clamp(-8, 7)
    return q.flatten(1), scale.squeeze(-1)


def dequantised(q: Tensor, scale: Tensor) -> Tensor:
    return (q.unflatten(1, (-1, GROUP)) * scale.float().unsqueeze(-1)).flatten(1)


def is_product(name: str) -> bool:
    """Whether the parameter of this name is a matrix kept in int4: embeddings and norms are not."""
    return name.endswith(("_proj.weight", "fc.weight", "lm_head.weight"))


@contextmanager
def int4_weights(model: nn.Module):
    """Inside, the products use int4 weights; the gradients found there are then applied to the exact ones."""
    matrices = [weight for name, weight in model.named_parameters() if is_product(name)]
    exact = [weight.detach().clone() for weight in matrices]
    with torch.no_grad():
        for weight in matrices:
            weight.copy_(dequantised(*int4(weight)))
        yield
        for weight, kept in zip(matrices, exact):
            weight.copy_(kept)


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


class Attention(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.head_dim = shape.head_dim
        self.q_proj = linear(shape.hidden, shape.heads * shape.head_dim)
        self.k_proj = linear(shape.hidden, shape.kv_heads * shape.head_dim)
        self.v_proj = linear(shape.hidden, shape.kv_heads * shape.head_dim)
        self.o_proj = linear(shape.heads * shape.head_dim, shape.hidden)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        projections = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (p(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for p in projections)  # [batch, heads, rows, head_dim]
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        # Plain products: chats are short, and here they are several times as fast as torch's fused attention on a CPU.
        groups = q.shape[1] // k.shape[1]
        q = q.unflatten(1, (-1, groups)).flatten(2, 3)  # [batch, kv_heads, groups * rows, head_dim]
        scores = (q @ k.transpose(-1, -2)).unflatten(2, (groups, -1)) * self.head_dim**-0.5
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        shares = scores.masked_fill(future, -torch.inf).softmax(-1).to(v.dtype)
        mixed = (shares.flatten(2, 3) @ v).unflatten(2, (groups, -1)).flatten(1, 2)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.gate_proj = linear(shape.hidden, shape.inner)
        self.up_proj = linear(shape.hidden, shape.inner)
        self.down_proj = linear(shape.inner, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden, shape.norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, shape.norm_eps)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Parameter names are those of transformers below its `model.` prefix."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, shape.norm_eps)
        frequencies = shape.rope_theta ** (-torch.arange(0, shape.head_dim, 2) / shape.head_dim)
        angles = torch.outer(torch.arange(shape.context), frequencies).repeat(1, 2)  # [context, head_dim]
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * shape.layers) ** 0.5 if residual else 0.02 if "embed" in name else 0.05)

    def streams(self, ids: Tensor) -> list[Tensor]:
        """The residual stream [batch, rows, hidden] of token ids [batch, rows] after 0, 1, … and all layers."""
        streams = [self.embed_tokens(ids)]
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for layer in self.layers:
            streams.append(layer(streams[-1], cos, sin))
        return streams

    def forward(self, ids: Tensor) -> Tensor:
        """Hidden states [batch, rows, hidden] of token ids [batch, rows]."""
        return self.norm(self.streams(ids)[-1])

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.embed_tokens.weight)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    one, two = x.chunk(2, -1)
    return x * cos + torch.cat((-two, one), -1) * sin

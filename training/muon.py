"""Muon (Jordan et al. 2024): momentum, made orthogonal by Newton-Schulz steps.

torch's own computes those in bfloat16 alone, which takes a CPU without instructions for it three times as long as all the
rest of a training step.
"""

from collections import defaultdict

import torch
from torch import Tensor

MOMENTUM = 0.95
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


class Muon(torch.optim.Optimizer):
    """For matrices; updates as large as AdamW's (Liu et al. 2025), so that both can share a learning rate."""

    def __init__(self, matrices: list[Tensor], lr: float, weight_decay: float, dtype: torch.dtype):
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})
        self.dtype = dtype

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            like = defaultdict(list)
            for matrix in group["params"]:
                like[matrix.shape].append(matrix)
            for (rows, columns), matrices in like.items():
                updates = orthogonal(torch.stack([self.momentum(matrix) for matrix in matrices]).to(self.dtype))
                rate = 0.2 * max(rows, columns) ** 0.5 * group["lr"]
                for matrix, update in zip(matrices, updates):
                    matrix.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=rate)

    def momentum(self, matrix: Tensor) -> Tensor:
        """Nesterov's."""
        state = self.state[matrix]
        mean = state.setdefault("momentum", torch.zeros_like(matrix)).lerp_(matrix.grad, 1 - MOMENTUM)
        return matrix.grad.lerp(mean, MOMENTUM)


def orthogonal(x: Tensor) -> Tensor:
    """About U Vᵀ where x = U S Vᵀ, for each matrix of x [matrices, rows, columns]."""
    if x.size(1) > x.size(2):
        return orthogonal(x.mT).mT
    a, b, c = NEWTON_SCHULZ
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x

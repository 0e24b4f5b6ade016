"""Logits with the tokens that sampling may choose from, and their probabilities.

`sampling.json` is a list of {logits, temperature, top_k, top_p, min_p, kept,
probabilities}. The logits are integers in units of 1/65536, so f32 holds them
exactly. Temperature, top-k, top-p and min-p are applied in this order, each to
what the one before left, by the logits processors of transformers; null is off.
`kept` is in ascending order and `probabilities`, beside it, sum to one.

No limit falls within CLEARANCE of a probability sum or ratio, so that the
rounding of a correct implementation cannot change what is kept.
"""

import numpy as np
import torch
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from golden_json import rows

UNIT = 65536
CLEARANCE = 1e-4

# (vocabulary, spread of the logits, temperature, top_k, top_p, min_p)
CASES = [
    (50, 1.0, 1.0, None, None, None),
    (50, 2.0, 0.7, None, None, None),
    (50, 2.0, 1.5, None, None, None),
    (64, 2.0, 1.0, 1, None, None),
    (64, 2.0, 1.0, 5, None, None),
    (64, 2.0, 0.5, 40, None, None),
    (64, 2.0, 1.0, 64, None, None),
    (64, 2.0, 1.0, 1000, None, None),
    (100, 2.0, 1.0, None, 0.9, None),
    (100, 2.0, 0.8, None, 0.5, None),
    (100, 2.0, 2.0, None, 0.95, None),
    (100, 0.1, 1.0, None, 0.3, None),
    (100, 6.0, 1.0, None, 0.1, None),
    (131, 2.0, 1.0, None, None, 0.05),
    (131, 2.0, 0.7, None, None, 0.2),
    (131, 2.0, 1.3, None, None, 0.01),
    (131, 0.5, 1.0, None, None, 0.9),
    (257, 3.0, 0.8, 20, 0.9, None),
    (257, 3.0, 1.0, 50, 0.95, None),
    (257, 3.0, 1.2, 10, None, 0.1),
    (257, 3.0, 1.0, None, 0.9, 0.05),
    (257, 3.0, 0.6, 20, 0.95, 0.02),
    (512, 4.0, 1.0, 100, 0.99, 0.001),
    (512, 1.0, 0.9, 200, 0.8, 0.1),
    (1000, 3.0, 1.0, 40, 0.95, 0.05),
    (1000, 3.0, 0.1, 40, 0.9, None),
    (1000, 0.5, 1.0, None, 0.2, None),
    (2048, 4.0, 0.7, 40, 0.9, 0.02),
    (2048, 4.0, 1.0, None, 0.95, 0.01),
    (3000, 5.0, 0.8, 256, 0.98, 0.003),
]


def write(out):
    """Writes sampling.json."""
    generator = np.random.default_rng(0)
    cases = [draw(generator, *case) for case in CASES]
    (out / "sampling.json").write_text(rows(cases) + "\n")
    print(f"sampling.json: {len(cases)} cases, {(out / 'sampling.json').stat().st_size // 1000} kB")


def draw(generator, vocab_size, spread, *settings):
    """Draws logits until all differ and no limit is close, and makes a case of them."""
    while True:
        units = np.rint(generator.standard_normal(vocab_size) * spread * UNIT).astype(int)
        logits = torch.from_numpy(units / UNIT).float()
        if len(set(units)) == vocab_size and is_clear(logits, *settings):
            break
    probabilities = torch.softmax(filtered(logits, *settings), dim=-1)
    kept = probabilities.nonzero().flatten()
    temperature, top_k, top_p, min_p = settings
    return {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "logits": units.tolist(),
        "kept": kept.tolist(),
        "probabilities": [float(f"{value:.6g}") for value in probabilities[kept].tolist()],
    }


def filtered(logits, temperature, top_k=None, top_p=None, min_p=None):
    """Returns f64 logits after each filter that is on, minus infinity where a token is left out."""
    processors = [TemperatureLogitsWarper(temperature)]
    if top_k is not None:
        processors.append(TopKLogitsWarper(top_k))
    if top_p is not None:
        processors.append(TopPLogitsWarper(top_p))
    if min_p is not None:
        processors.append(MinPLogitsWarper(min_p))
    scores = logits.double().unsqueeze(0)
    for process in processors:
        scores = process(None, scores)
    return scores[0]


def is_clear(logits, temperature, top_k, top_p, min_p):
    """Whether top-p and min-p stay CLEARANCE away from each sum and ratio they compare with."""
    if top_p is not None:
        probabilities = torch.softmax(filtered(logits, temperature, top_k), dim=-1)
        sums = probabilities.sort(descending=True).values.cumsum(0)
        if (sums - top_p).abs().min() < CLEARANCE:
            return False
    if min_p is not None:
        probabilities = torch.softmax(filtered(logits, temperature, top_k, top_p), dim=-1)
        ratios = probabilities / probabilities.max()
        if (ratios / min_p - 1).abs().min() < CLEARANCE:
            return False
    return True

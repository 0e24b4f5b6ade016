"""Logits with the tokens that sampling may choose from, and their probabilities.

`sampling.json` is a list of {logits, temperature, top_k, top_p, min_p, kept,
probabilities}. The logits are integers in units of 1/65536, so f32 holds them
exactly. Temperature, top-k, top-p and min-p are applied in this order, each to
what the one before left, by the logits processors of transformers; null is off.
`kept` is in ascending order and `probabilities`, beside it, sum to one.

Some cases also have {bias, repetition_penalty, tokens}: pairs of a token and
what is added to its logit, then the penalty on the tokens of the sequence,
both before the temperature, as transformers orders its processors.

No limit falls within CLEARANCE of a probability sum or ratio, so that the
rounding of a correct implementation cannot change what is kept.
"""

import numpy as np
import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

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

# (vocabulary, spread of the logits, temperature, top_k, top_p, min_p), tokens of the sequence, repetition
# penalty, tokens with a bias
ADJUSTED_CASES = [
    ((60, 2.0, 1.0, None, None, None), 12, 1.3, 0),
    ((60, 2.0, 0.7, None, None, None), 40, 2.0, 0),
    ((60, 2.0, 1.0, None, None, None), 20, 0.6, 0),
    ((131, 2.0, 1.0, None, None, None), 0, 1.0, 9),
    ((131, 2.0, 0.8, 20, 0.9, None), 30, 1.1, 0),
    ((257, 3.0, 1.0, 40, 0.95, 0.02), 100, 1.2, 30),
    ((512, 3.0, 1.2, None, 0.9, None), 300, 1.5, 64),
]


def write(out):
    """Writes sampling.json."""
    generator = np.random.default_rng(0)
    cases = [draw(generator, *case) for case in CASES]
    cases += [draw(generator, *case, adjust=adjust) for case, *adjust in ADJUSTED_CASES]
    (out / "sampling.json").write_text(rows(cases) + "\n")
    print(f"sampling.json: {len(cases)} cases, {(out / 'sampling.json').stat().st_size // 1000} kB")


def draw(generator, vocab_size, spread, *settings, adjust=None):
    """Draws logits until all differ and no limit is close, and makes a case of them."""
    while True:
        units = np.rint(generator.standard_normal(vocab_size) * spread * UNIT).astype(int)
        logits, adjustment = torch.from_numpy(units / UNIT).float(), {}
        if adjust is not None:
            logits, adjustment = adjusted(generator, logits, *adjust)
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
        **adjustment,
        "logits": units.tolist(),
        "kept": kept.tolist(),
        "probabilities": [float(f"{value:.6g}") for value in probabilities[kept].tolist()],
    }


def adjusted(generator, logits, length, penalty, biases):
    """Returns f64 logits under a random bias and the penalty of a random sequence, and what these are."""
    tokens = generator.integers(len(logits), size=length).tolist()
    biased = generator.choice(len(logits), size=biases, replace=False).tolist()
    bias = [(token, float(value) / 8) for token, value in zip(biased, generator.integers(-32, 33, size=biases))]
    scores, ids = logits.double().unsqueeze(0), torch.tensor([tokens], dtype=torch.long)
    if bias:
        scores = SequenceBiasLogitsProcessor({(token,): value for token, value in bias})(ids, scores)
    scores = RepetitionPenaltyLogitsProcessor(penalty)(ids, scores)
    return scores[0], {"bias": bias, "repetition_penalty": penalty, "tokens": tokens}


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

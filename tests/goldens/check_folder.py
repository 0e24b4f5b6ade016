"""Compares what Tabloom and transformers make of a folder that `examples/quantize` wrote.

    .venv/bin/python tests/goldens/check_folder.py FOLDER [--seed SEED]

The compressed-tensors library unpacks the weights. Prints Σ(a−b)² / Σa² of the logits.
"""

import argparse
import json
import subprocess
from pathlib import Path

import torch
from golden_models import load

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--seed", type=int, default=0)
arguments = parser.parse_args()

model = load(arguments.folder)
generator = torch.Generator().manual_seed(arguments.seed)
tokens = torch.randint(model.config.vocab_size, (1, 48), generator=generator)
with torch.no_grad():
    expected = model(tokens).logits[0]
ids = ",".join(map(str, tokens[0].tolist()))
command = ["cargo", "run", "--example", "logits", "--", "--device", "cpu", "--model", str(arguments.folder), "--tokens", ids]
output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
found = torch.tensor(json.loads(output)["logits"])
print(f"{((expected - found) ** 2).sum() / (expected**2).sum():.2e}")

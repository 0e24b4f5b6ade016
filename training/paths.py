"""Where things are kept."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build"  # tokenizer and checkpoint of a training run
MODEL = HERE.parent / "www" / "model"  # the exported model
DRAFT = MODEL / "draft"  # its draft head
GOLDENS = HERE.parent / "tests" / "goldens" / "embedded.json"
PROMPTS = HERE.parent / "examples" / "bench" / "speculate" / "prompts.json"

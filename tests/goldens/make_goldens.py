"""Makes every file of this folder that tests compare with, from seeds.

    python3 -m venv .venv && .venv/bin/pip install -r tests/goldens/requirements.txt
    .venv/bin/pip install --no-deps speculators==0.9.0 medusa-llm==0.1
    .venv/bin/python tests/goldens/make_goldens.py [--out DIR]

The versions in requirements.txt are the oracle. With them, a second run on the
same kind of CPU writes the same bytes; on another kind, `logits.bin` may
differ in the last bits of a float.

    <model>/                a complete Hugging Face folder with tiny random weights
      golden.json           prompt, greedy continuation and how clear its choices are
      logits.bin            f32 little endian, [prompt tokens][vocabulary]
    draft/                  draft heads of each kind for some of them, and rounds of drafting
    embeddings.json         pooled hidden states of prompts and texts
    tokenizer_<kind>/       a tokenizer with golden.json: texts and chats to ids
    formats/<model>/        the same in the formats of other quantisers
    gguf/                   GGUF files of models and tokenizers
    draft_torch/            draft heads in files of PyTorch
    added_tokens.json       texts to ids with added tokens of all flags beside normalisers
    chat_templates.json     chat templates with the text they must render
    jinja.json              snippets of Jinja with the text they must render
    splits.json             texts split by the regular expressions of tokenizers
    tool_chats.json         requests with tools, and the text that such templates render of them
    sampling.json           logits with the tokens and probabilities kept from them

The golden_*.py modules say what is in each. Two are run by themselves: golden_gguf_splits.py, which needs
llama.cpp, and golden_published_tokenizers.py, which needs published files.
"""

import argparse
import os
from pathlib import Path

# One thread, no network: the order of every sum is fixed, and nothing is fetched.
os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import golden_added_tokens  # noqa: E402
import golden_draft  # noqa: E402
import golden_embeddings  # noqa: E402
import golden_formats  # noqa: E402
import golden_gguf  # noqa: E402
import golden_jinja  # noqa: E402
import golden_models  # noqa: E402
import golden_sampling  # noqa: E402
import golden_splits  # noqa: E402
import golden_templates  # noqa: E402
import golden_tokenizers  # noqa: E402
import golden_torch  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description="Makes the golden files.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    out = parser.parse_args().out
    golden_models.write(out)
    golden_draft.write(out)
    golden_embeddings.write(out)
    golden_torch.write(out)
    golden_splits.write(out)
    golden_tokenizers.write(out)
    golden_added_tokens.write(out)
    golden_gguf.write(out)
    golden_formats.write(out)
    golden_templates.write(out)
    golden_jinja.write(out)
    golden_sampling.write(out)


if __name__ == "__main__":
    main()

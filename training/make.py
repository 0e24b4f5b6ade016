"""Everything in one command: train, export, measure, write the model card and the goldens."""

import argparse
from pathlib import Path

import card
import export
import goldens
import train
from paths import BUILD, GOLDENS, MODEL

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=BUILD, help="where tokenizer and checkpoint are kept")
    parser.add_argument("--model", type=Path, default=MODEL, help="the folder to write")
    parser.add_argument("--goldens", type=Path, default=GOLDENS)
    parser.add_argument("--tokens", type=int, default=train.TOKENS, help="how many to train on; a stopped run goes on where it was")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    train.train(options.folder, options.tokens, options.threads, options.seed)
    export.export(options.folder, options.model)
    card.write(options.folder, options.model)
    goldens.write(options.folder, options.model, options.goldens)

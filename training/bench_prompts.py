"""Write the held-out questions by which `cargo xtask bench speculate` counts tokens for each step."""

import argparse
import json
from pathlib import Path

from data import held_out_cases
from paths import PROMPTS

PER_TASK = 12
SEED = 7  # of drafting.py too
REPEATED = "asked again"  # answers that stand in the chat already, to be copied
REPEATED_TASKS = ["addition", "subtraction", "poem", "list", "count", "definition"]
TIMES = 2


def chats() -> dict[str, list[list[str]]]:
    """Of each task: what user and assistant say in turn, the user last."""
    found, repeated = {}, []
    for task, messages, answer in held_out_cases(SEED, PER_TASK):
        said = [message["content"] for message in messages]
        found.setdefault(task, []).append(said)
        if task in REPEATED_TASKS and len(found[task]) <= 2 and len(said) == 1:
            repeated.append([*([*said, answer] * TIMES), *said])
    return dict(sorted(found.items())) | {REPEATED: repeated}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=PROMPTS, help="the file to write")
    options = parser.parse_args()
    lines = [f"{json.dumps(task)}: {json.dumps(said, ensure_ascii=False)}" for task, said in chats().items()]
    options.to.write_text("{\n" + ",\n".join(lines) + "\n}\n")

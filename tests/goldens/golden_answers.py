"""Assistants' turns with tool calls, as published chat templates write them into a history.

`real/answers.json` has the `tools` and `templates`, a list of {template, turns}; a turn has the `calls`, `content`
and `reasoning` that were given, and `text`, what the template wrote after the start
of the assistant's turn and before its end token. A reader of answers must find the
same in it. `begins` says that the prompt has begun the reasoning.

The templates are those of llama.cpp, in `target/real` (`cargo xtask test --only real`).
Left out are turns that a template refuses, or writes without one of the calls, and
templates that write none, or whose models Tabloom does not run.
"""

import os
import sys

from transformers.utils.chat_template_utils import render_jinja_template

from golden_json import tables

FOLDER = "target/real/llama.cpp/templates"

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look-up_2",
            "description": "Looks something up.",
            "parameters": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "what"},
                    "count": {"type": "integer", "description": "how many"},
                    "share": {"type": "number", "description": "how much"},
                    "whether": {"type": "boolean", "description": "whether"},
                    "list": {"type": "array", "items": {"type": "number"}, "description": "which"},
                    "object": {"type": "object", "properties": {}, "description": "what else"},
                },
                "required": ["text"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "now",
            "description": "Tells the time.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]

# Formats of models that Tabloom does not run.
OTHER = (
    "Apertus", "Cohere", "GigaChat", "Kimi", "MiniMax", "deepseek-ai-DeepSeek-V3.2", "deepseek-ai-DeepSeek-V4",
    "muse-glimmer", "tencent", "upstage", "moonshotai",
)

PLAIN = {"text": "Zürich, 8 am", "count": 3, "share": 0.5, "whether": True, "list": [1, 2.5]}
ODD = {"text": "123", "object": {"a": [{"b": "c"}], "d": False}}
LINES = {"text": 'first line\n  "second" {line}\n\nlast'}

TURNS = [
    {"calls": [["look-up_2", PLAIN]]},
    {"calls": [["look-up_2", ODD]], "content": "I look it up."},
    {"calls": [["look-up_2", LINES]]},
    {"calls": [["look-up_2", PLAIN], ["look-up_2", ODD]]},
    {"calls": [["now", {}]]},
    {"calls": [["look-up_2", PLAIN]], "reasoning": "The user wants it."},
    {"content": "Nothing to look up.", "reasoning": "Nothing."},
]

# Texts at which a turn is over.
ENDS = [
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|call|>", "<|return|>", "</s>", "<|end|>", "<eos>",
    "<|end_of_text|>", "<｜end▁of▁sentence｜>", "<|endoftext|>", "<end_of_turn>", "<turn|>",
    "<|tool_response>", "<|user|>", "<|observation|>", "<SPECIAL_12>", "<|im_user|>", "[e~[", "<seed:eos>",
    "</assistant>", "<|eot|>", "<|flush|>", "<sep>", "<[EOS]>", "<|role_end|>",
]


# Of reasoning that is told apart.
REASONING = ["</think>", "<|channel|>analysis"]


def rendered(template, messages, begins):
    texts, _ = render_jinja_template(
        conversations=[messages],
        tools=TOOLS,
        chat_template=template,
        add_generation_prompt=begins,
        bos_token="<s>",
        eos_token="</s>",
    )
    return texts[0]


def message(turn):
    said = {"role": "assistant"}
    said["content"] = turn.get("content", "")
    if "reasoning" in turn:
        said["reasoning_content"] = said["thinking"] = turn["reasoning"]
    if "calls" in turn:
        said["tool_calls"] = [
            {"id": f"call{i:05}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(turn["calls"])
        ]
    return said


def written(template, turn):
    asked = [{"role": "user", "content": "Please."}]
    prompt = rendered(template, asked, True)
    whole = rendered(template, [*asked, message(turn)], False)
    start = len(os.path.commonprefix([prompt, whole]))
    # Not in the middle of a tag.
    tag = whole.rfind("<", 0, start)
    if ">" not in whole[tag:start]:
        start = max(tag, 0)
    rest = whole[start:]
    # gpt-oss begins and ends several messages in one turn.
    ends = [rest.find(end) for end in ENDS if not ("<|channel|>" in template and end == "<|end|>")]
    ends = [at for at in ends if at >= 0]
    text = rest[: min(ends)] if ends else rest
    begun = prompt[:start].rstrip().endswith("<think>") or text.lstrip().startswith("</think>")
    return text, begun and "</think>" in text


def main(path):
    found = []
    for name in sorted(os.listdir(FOLDER)):
        if not name.endswith(".jinja") or name.startswith(OTHER):
            continue
        with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
            template = file.read()
        turns = []
        for turn in TURNS:
            try:
                text, begins = written(template, turn)
            except Exception as error:  # noqa: BLE001: a template may refuse a turn in any way
                print(f"{name}: {turn}: {error}", file=sys.stderr)
                continue
            if any(text.count(name) < len([c for c in turn.get("calls", []) if c[0] == name])
                   for name, _ in turn.get("calls", [])):
                print(f"{name}: {turn}: calls are left out", file=sys.stderr)
                continue
            if "<|channel|>" in template and "calls" in turn and "content" in turn:
                # gpt-oss's template writes it as reasoning.
                turn = {"calls": turn["calls"], "reasoning": turn["content"]}
            if "reasoning" in turn and not any(mark in text for mark in REASONING):
                continue
            # Some templates leave out text beside calls, or reasoning.
            turn = {key: value for key, value in turn.items() if key == "calls" or value in text}
            turns.append({**turn, "text": text, **({"begins": True} if begins else {})})
        if any("calls" in turn for turn in turns):
            found.append({"template": name, "turns": turns})
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(tables({"tools": TOOLS, "templates": found}) + "\n")


if __name__ == "__main__":
    main("tests/goldens/real/answers.json")

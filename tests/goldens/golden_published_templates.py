"""Digests of what transformers renders with published chat templates.

`real/templates.json` has `requests`, which are requests as OpenAI's API has them
by name, and `templates`: for each template of llama.cpp's collection, and each
request in their order, 16 hexadecimal digits of the SHA-256 of the text, or null where
transformers has an error or the template raises an exception.

A request becomes what users of transformers write: absent keys instead of nulls,
arguments of calls as objects, the function's name beside a result. A template
that takes content as a list of parts alone gets that; one that fails without a
content, or that cannot write arguments as objects, gets an empty text or the
arguments as JSON text.

    python golden_published_templates.py FOLDER_OF_TEMPLATES
"""

import copy
import datetime
import hashlib
import json
import pathlib
import sys

import transformers.utils.chat_template_utils as utils

BOS, EOS = "<s>", "</s>"

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells today's weather <outside> & inside.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where?"},
                "days": {"type": "integer", "minimum": 1},
                "unit": {"type": "string", "enum": ["C", "F"]},
            },
            "required": ["city"],
        },
    },
}
NOW = {
    "type": "function",
    "function": {
        "name": "now",
        "description": "Tells the time.",
        "parameters": {"type": "object", "properties": {}},
    },
}
TOOLS = [WEATHER, NOW]
SYSTEM = {"role": "system", "content": "Answer politely."}
USER = {"role": "user", "content": "Is it warm in Orléans?"}
ANSWER = {"role": "assistant", "content": "It is warm."}
MORE = {"role": "user", "content": "And tomorrow?"}


def call(key, name, arguments):
    text = json.dumps(arguments, ensure_ascii=False)
    return {"id": key, "type": "function", "function": {"name": name, "arguments": text}}


def calls(*made, content=None, **more):
    return {"role": "assistant", "content": content, "tool_calls": list(made), **more}


def result(key, text):
    return {"role": "tool", "tool_call_id": key, "content": text}


ONE = call("abc123xyz", "get_weather", {"city": "Orléans", "days": 2})
TWO = call("def456uvw", "now", {})
RICH = call("ghi789rst", "get_weather", {"city": "a\"b'c<d>\n", "days": [1, 2.5, None, True, {"a": {}}]})

REQUESTS = {
    "user": {"messages": [USER]},
    "system": {"messages": [SYSTEM, USER]},
    "turns": {"messages": [SYSTEM, USER, ANSWER, MORE]},
    "turns without system": {"messages": [USER, ANSWER, MORE, ANSWER, USER]},
    "two users": {"messages": [USER, MORE]},
    "white space": {
        "messages": [
            {"role": "system", "content": " \n Be brief. \n"},
            {"role": "user", "content": "\n  def f(a):\n\treturn {{ a }}  \n\n"},
            {"role": "assistant", "content": "  今日は 🏰\r\n"},
            {"role": "user", "content": "<b>&amp;</b> \\n \"x\" 'y'"},
        ]
    },
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Is it warm?"}]}]},
    "tools": {"messages": [USER], "tools": TOOLS},
    "tools and system": {"messages": [SYSTEM, USER], "tools": TOOLS},
    "call": {"messages": [USER, calls(ONE), result("abc123xyz", '{"celsius": 21.5}')], "tools": TOOLS},
    "two calls": {
        "messages": [SYSTEM, USER, calls(ONE, TWO), result("abc123xyz", "21.5 °C"), result("def456uvw", "12:00")],
        "tools": TOOLS,
    },
    "call with text": {
        "messages": [
            USER,
            calls(ONE, content="I look it up."),
            result("abc123xyz", "21.5"),
            ANSWER,
            MORE,
        ],
        "tools": TOOLS,
    },
    "rich arguments": {"messages": [USER, calls(RICH), result("ghi789rst", "?")], "tools": TOOLS},
    "call without tools": {"messages": [USER, calls(ONE), result("abc123xyz", "21.5"), ANSWER, MORE]},
    "reasoning": {"messages": [USER, {**ANSWER, "reasoning_content": "21.5 is warm."}, MORE]},
    "reasoning and call": {
        "messages": [USER, calls(ONE, reasoning_content="Look it up."), result("abc123xyz", "21.5")],
        "tools": TOOLS,
    },
    "thinking": {"messages": [USER], "chat_template_kwargs": {"enable_thinking": True, "thinking": True}},
    "no thinking": {"messages": [USER], "chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
    "effort": {"messages": [USER], "reasoning_effort": "high"},
    "continue": {"messages": [USER, {"role": "assistant", "content": "It is"}]},
    "answered": {"messages": [USER, ANSWER], "continue_final_message": False},
}


class Clock(datetime.datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 10, 5, 14, 7, 9)


def render(template, messages, **more):
    try:
        texts, _ = utils.render_jinja_template(
            [messages], chat_template=template, bos_token=BOS, eos_token=EOS, **more
        )
    except Exception:
        return None
    return texts[0]


def shaped(messages, parts, empty, text):
    """Messages in the shape that a template takes."""
    messages = copy.deepcopy(messages)
    for message in messages:
        if message.get("content") is None:
            message.pop("content", None)
            if empty:
                message["content"] = ""
        elif parts and isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
        for made in message.get("tool_calls", []):
            if text:
                made["function"]["arguments"] = json.dumps(made["function"]["arguments"], ensure_ascii=False)
    return messages


def shape(template):
    """The first shape in which a template shows everything, or else renders."""

    def renders(messages, tools, form):
        return render(template, shaped(messages, *form), tools=tools, add_generation_prompt=True)

    def shows(messages, tools, form):
        text = renders(messages, tools, form)
        printed = ("{'probe_key': 'probe_value'}", "'type': 'text'")
        return text is not None and "probe_value" in text and not any(part in text for part in printed)

    user = [{"role": "user", "content": "probe_value"}]
    parts = not shows(user, None, (False, False, False)) and shows(user, None, (True, False, False))
    function = {"name": "probe", "arguments": {"probe_key": "probe_value"}}
    called = [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "probe1234", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "probe1234", "name": "probe", "content": "1"},
    ]
    properties = {"probe_key": {"type": "string"}}
    parameters = {"type": "object", "properties": properties}
    tool = {
        "type": "function",
        "function": {"name": "probe", "description": "Probes.", "parameters": parameters},
    }
    forms = [(parts, False, False), (parts, True, False), (parts, False, True), (parts, True, True)]
    fitting = [form for form in forms if shows(called, [tool], form)]
    rendering = [form for form in forms if renders(called, [tool], form) is not None]
    return (fitting + rendering + forms)[0]


def of_request(request):
    """The messages of a request as users of transformers write them, and the other arguments."""
    messages = copy.deepcopy(request["messages"])
    names = {}
    for message in messages:
        if isinstance(message["content"], list):
            message["content"] = "".join(part["text"] for part in message["content"])
        if "reasoning_content" in message:
            message["reasoning"] = message["reasoning_content"]
        for made in message.get("tool_calls", []):
            made["function"]["arguments"] = json.loads(made["function"]["arguments"])
            names[made["id"]] = made["function"]["name"]
        if message["role"] == "tool":
            message["name"] = names[message["tool_call_id"]]
    continues = messages[-1]["role"] == "assistant" and request.get("continue_final_message", True)
    more = {"add_generation_prompt": not continues, "continue_final_message": continues}
    more |= {"tools": request.get("tools")} | request.get("chat_template_kwargs", {})
    if "reasoning_effort" in request:
        more["reasoning_effort"] = request["reasoning_effort"]
    return messages, more


def digest(text):
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]


def write(out, folder):
    """Writes templates.json."""
    utils.datetime = Clock
    rows = []
    for file in sorted(folder.glob("*.jinja")):
        # Python's `read_text` would read line ends as Jinja does.
        template = file.read_bytes().decode()
        form = shape(template)
        digests = []
        for request in REQUESTS.values():
            messages, more = of_request(request)
            digests.append(digest(render(template, shaped(messages, *form), **more)))
        rows.append(f"{json.dumps(file.name)}: {json.dumps(digests)}")
    requests = [f"{json.dumps(name)}: {json.dumps(request, ensure_ascii=False)}" for name, request in REQUESTS.items()]
    text = '{\n"requests": {\n%s\n},\n"templates": {\n%s\n}\n}\n' % (",\n".join(requests), ",\n".join(rows))
    (out / "templates.json").write_text(text, encoding="utf-8")
    print(f"templates.json: {len(rows)} templates, {len(REQUESTS)} requests")


if __name__ == "__main__":
    write(pathlib.Path(__file__).parent / "real", pathlib.Path(sys.argv[1]))

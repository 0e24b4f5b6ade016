"""Chat templates with the text they must render.

`chat_templates.json` is a list of {name, template, bos_token, eos_token,
messages, add_generation_prompt, variables} with `expected`, the text that
transformers renders, or `error`, the message the template raises.

`tool_chats.json` is a list of {name, template, request, expected}: `request` has
messages and tools as OpenAI's API has them, with the arguments of calls as text,
and `expected` is what transformers renders of the same with arguments as objects.

The templates are our own, in the formats of the families they are named after.
Together they use what published templates use: Jinja's blanks around blocks,
namespaces, slices, tests, filters and macros, methods of Python's strings, and
the functions and JSON filter that transformers adds.
"""

import copy
import json

from jinja2.exceptions import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from golden_json import rows

CHATS = [
    [{"role": "user", "content": "Hello, who are you?"}],
    [
        {"role": "system", "content": "Answer politely."},
        {"role": "user", "content": "  What's 10 + 25?\n"},
    ],
    [
        {"role": "system", "content": "Answer politely."},
        {"role": "user", "content": "Où est le château?"},
        {"role": "assistant", "content": "Près de la ville. 🏰"},
        {"role": "user", "content": "Merci! 今日は?"},
    ],
    [
        {"role": "user", "content": "def add(left, right):\n\treturn left + right"},
        {"role": "assistant", "content": "It adds.  \n\n1 + 2 = 3"},
        {"role": "user", "content": "{{ bos_token }} {% raw %}"},
    ],
]

# ChatML with a default system message. Blocks stand on lines of their own, to be trimmed.
CHATML = """\
{% if messages[0]['role'] != 'system' %}
<|im_start|>system
Be helpful.<|im_end|>
{% endif %}
{% for message in messages %}
<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
"""

# ChatML on one line, as SmolLM2 has it.
CHATML_ONE_LINE = (
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}"
    "{{ '<|im_start|>system\\nBe helpful.<|im_end|>\\n' }}{% endif %}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{{ '<|im_start|>assistant\\n' if add_generation_prompt }}"
)

# Qwen2.5 format: tools as JSON in the system message, calls and answers in tags.
CHATML_TOOLS = """\
{%- set system = messages[0].content if messages[0].role == 'system' else 'Be helpful.' -%}
{{- '<|im_start|>system\\n' ~ system }}
{%- if tools %}
    {{- '\\n\\nTools:\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' ~ (tool | tojson) }}
    {%- endfor %}
    {{- '\\n</tools>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- elif message.role != 'system' or not loop.first %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if call.function %}
                {%- set call = call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' ~ call.name ~ '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

# Qwen3 format: the thoughts of earlier turns are dropped, an empty thought turns thinking off.
CHATML_THINKING = """\
{%- set ns = namespace(last_query=-1) %}
{%- for message in messages[::-1] %}
    {%- if ns.last_query < 0 and message.role == 'user'
        and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.last_query = messages | length - loop.index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if thought and loop.index0 > ns.last_query %}
            {%- set content = '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content %}
        {%- endif %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

# Llama 3 format: headers, trimmed contents, and a date in the system message.
LLAMA3 = """\
{{- bos_token }}
{%- if date_string is not defined %}
    {%- set date_string = '26 Jul 2024' %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
{{- 'Cutting Knowledge Date: December 2023\\nToday Date: ' + date_string + '\\n\\n' }}
{%- if tools is defined and tools is not none %}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) + '\\n\\n' }}
    {%- endfor %}
{%- endif %}
{{- system_message + '<|eot_id|>' }}
{%- for message in messages %}
    {%- if message.role == 'tool' or message.role == 'ipython' %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}
        {{- message.content | tojson if message.content is iterable else message.content }}
    {%- elif 'tool_calls' in message %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception('One tool call at a time!') }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + call.name + '", "parameters": ' + call.arguments | tojson + '}' }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim }}
    {%- endif %}
    {{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

# Llama 2 format: the system message inside the first instruction.
LLAMA2 = (
    "{% set offset = 1 if messages[0]['role'] == 'system' else 0 %}"
    "{% for message in messages[offset:] %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate between user and assistant, not ' ~ message['role'] ~ '.') }}"
    "{% endif %}"
    "{% if message['role'] == 'user' %}"
    "{% set content = message['content'].strip() %}"
    "{% if loop.index0 == 0 and offset == 1 %}"
    "{% set content = '<<SYS>>\\n' ~ messages[0]['content'] ~ '\\n<</SYS>>\\n\\n' ~ content %}"
    "{% endif %}"
    "{{ bos_token ~ '[INST] ' ~ content ~ ' [/INST]' }}"
    "{% else %}{{ ' ' ~ message['content'] | trim ~ ' ' ~ eos_token }}{% endif %}"
    "{% endfor %}"
)

# Mistral Nemo format: the system message inside the last instruction.
MISTRAL = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message, turns = messages[0]["content"], messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{%- set questions = turns | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for turn in turns if turn.role in ["user", "assistant"] and not turn.tool_calls %}
    {%- if (turn.role == "user") != (ns.index % 2 == 0) %}
        {{- raise_exception("After the system message, user and assistant must alternate.") }}
    {%- endif %}
    {%- set ns.index = ns.index + 1 %}
{%- endfor %}
{{- bos_token }}
{%- for turn in turns %}
    {%- if turn.role == "user" %}
        {%- if tools is not none and turn == questions[-1] %}
            {{- "[AVAILABLE_TOOLS][" }}
            {%- for tool in tools %}
                {{- "{" }}
                {%- for key, value in tool.function.items() if key != "return" %}
                    {{- '"' ~ key ~ '": ' ~ (value | tojson) }}
                    {{- ", " if not loop.last }}
                {%- endfor %}
                {{- "}" if loop.last else "}, " }}
            {%- endfor %}
            {{- "][/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {{- "[INST]" }}
        {%- if loop.last and system_message is defined %}
            {{- system_message + "\\n\\n" }}
        {%- endif %}
        {{- turn.content + "[/INST]" }}
    {%- elif turn.tool_calls %}
        {{- "[TOOL_CALLS][" }}
        {%- for call in turn.tool_calls %}
            {%- set out = call.function | tojson %}
            {{- out[:-1] + ', "id": "' + call.id + '"}' + ("]" + eos_token if loop.last else ", ") }}
        {%- endfor %}
    {%- elif turn.role == "assistant" %}
        {{- turn.content + eos_token }}
    {%- else %}
        {{- '[TOOL_RESULTS]{"content": ' + turn.content | string + ', "call_id": "' + turn.tool_call_id + '"}' }}
        {{- "[/TOOL_RESULTS]" }}
    {%- endif %}
{%- endfor %}
"""

# Mistral Small 3.2 format: a system block, and each call by itself.
MISTRAL_NAMED = """\
{{- bos_token }}
{%- if tools %}
    {{- "[AVAILABLE_TOOLS]" + (tools | tojson) + "[/AVAILABLE_TOOLS]" }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "system" %}
        {{- "[SYSTEM_PROMPT]" + message.content + "[/SYSTEM_PROMPT]" }}
    {%- elif message.role == "user" %}
        {{- "[INST]" + message.content + "[/INST]" }}
    {%- elif message.role == "tool" %}
        {{- "[TOOL_RESULTS]" + message.tool_call_id + "[TOOL_CONTENT]" + message.content + "[/TOOL_RESULTS]" }}
    {%- else %}
        {%- if message.content %}
            {{- message.content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- "[TOOL_CALLS]" + call.function.name + "[CALL_ID]" + call.id }}
            {{- "[ARGS]" + (call.function.arguments | tojson) }}
        {%- endfor %}
        {{- eos_token }}
    {%- endif %}
{%- endfor %}
"""

# What the others leave out: macros, joined filters, dates, and blanks around blocks.
ODDMENTS = """\
{%- macro turn(message, mark='#') -%}
    {{ mark * 2 }} {{ message.role | upper }}: {{ message.content | replace('\\n', ' ') | trim }}
{%- endmacro -%}
{{ strftime_now('%d %b %Y') | length }} {{ messages | map(attribute='role') | unique | join(', ') }}
  {% for message in messages | rejectattr('role', 'equalto', 'system') %}
    {# Indented blocks leave nothing behind. #}
{{ turn(message, '*' if loop.last else '#') }}
    {% endfor %}
{{ (messages | last).content | length }} {{ messages[-1]['content'][:5] | tojson }}
{%- if not add_generation_prompt %} end{% endif %}
"""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells today's weather <outside> & inside, in 'plain' words.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["city"],
        },
    },
}
TOOL_CHAT = [
    {"role": "user", "content": "Is it warm in Orléans?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "abc123xyz",
                "type": "function",
                "function": {"name": "get_weather", "arguments": {"city": "Orléans"}},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "abc123xyz", "content": '{"celsius": 21.5}'},
]
THINKING_CHAT = [
    {"role": "user", "content": "Two and two?"},
    {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\nFour."},
    {"role": "user", "content": "And three?"},
    {"role": "assistant", "content": "<think>\n\nOne more.\n</think>\nSeven."},
]
NOT_ALTERNATING = [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}]

# name: (template, begin token, end token, further cases of (messages, generation prompt, variables))
TEMPLATES = {
    "chatml": (CHATML, None, "<|im_end|>", [(CHATS[0], False, {})]),
    "smollm2": (CHATML_ONE_LINE, "<|im_start|>", "<|im_end|>", [(CHATS[0], False, {})]),
    "qwen2.5": (CHATML_TOOLS, None, "<|im_end|>", [(TOOL_CHAT, True, {"tools": [WEATHER]})]),
    "qwen3": (
        CHATML_THINKING,
        None,
        "<|im_end|>",
        [(CHATS[0], True, {"enable_thinking": False}), (THINKING_CHAT, False, {}), (THINKING_CHAT[:3], True, {})],
    ),
    "llama3": (
        LLAMA3,
        "<|begin_of_text|>",
        "<|eot_id|>",
        [
            (CHATS[1], True, {"date_string": "01 Jan 2030"}),
            (TOOL_CHAT, True, {"tools": [WEATHER]}),
            ([TOOL_CHAT[0], {"role": "assistant", "tool_calls": []}], True, {}),
        ],
    ),
    "llama2": (LLAMA2, "<s>", "</s>", [(NOT_ALTERNATING, True, {})]),
    "mistral": (
        MISTRAL,
        "<s>",
        "</s>",
        [(TOOL_CHAT, True, {"tools": [WEATHER, WEATHER]}), (NOT_ALTERNATING, True, {})],
    ),
    "oddments": (ODDMENTS, None, None, [(CHATS[2], False, {})]),
}


# name: (template, how many calls a message may have)
TOOL_TEMPLATES = {
    "qwen2.5": (CHATML_TOOLS, 2),
    "qwen3": (CHATML_THINKING, 0),
    "llama3": (LLAMA3, 1),
    "mistral": (MISTRAL, 2),
    "mistral3.2": (MISTRAL_NAMED, 2),
}
TIME = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


def call(key, name, arguments):
    text = json.dumps(arguments, ensure_ascii=False)
    return {"id": key, "type": "function", "function": {"name": name, "arguments": text}}


def tool_requests(calls):
    """Requests as OpenAI's API has them, with at most so many calls in a message."""
    question = {"role": "user", "content": "Is it warm in Orléans?"}
    thought = {"role": "assistant", "content": "Warm.", "reasoning_content": "21.5 is warm."}
    if calls == 0:
        return [{"messages": [question, thought, {"role": "user", "content": "And now?"}]}]
    both = [
        call("abc123xyz", "get_weather", {"city": "Orléans", "days": [1, 2.5, None, True, {"a": "\"'<>\n"}]}),
        call("def456uvw", "now", {}),
    ][:calls]
    results = [{"role": "tool", "tool_call_id": one["id"], "content": '{"celsius": 21.5}'} for one in both]
    called = {"role": "assistant", "content": None, "tool_calls": both}
    tools = [WEATHER, TIME]
    return [
        {"messages": [question], "tools": tools},
        {"messages": [question, called, *results], "tools": tools},
        {"messages": [question, called, *results], "tools": []},
    ]


def write_tool_chats(out):
    """Writes tool_chats.json."""
    cases = []
    for name, (template, calls) in TOOL_TEMPLATES.items():
        for request in tool_requests(calls):
            parsed = copy.deepcopy(request)
            for message in parsed["messages"]:
                for made in message.get("tool_calls", []):
                    made["function"]["arguments"] = json.loads(made["function"]["arguments"])
            case = {
                "template": template,
                "bos_token": None,
                "eos_token": None,
                "messages": parsed["messages"],
                "add_generation_prompt": True,
                "variables": {"tools": parsed["tools"]} if parsed.get("tools") else {},
            }
            expected = render(case)["expected"]
            cases.append({"name": name, "template": template, "request": request, "expected": expected})
    (out / "tool_chats.json").write_text(rows(cases) + "\n", encoding="utf-8")
    print(f"tool_chats.json: {len(TOOL_TEMPLATES)} templates, {len(cases)} cases")


def write(out):
    """Writes chat_templates.json and tool_chats.json."""
    write_tool_chats(out)
    cases = []
    for name, (template, bos, eos, further) in TEMPLATES.items():
        for messages, generate, variables in [(chat, True, {}) for chat in CHATS[:3]] + further:
            case = {
                "name": name,
                "template": template,
                "bos_token": bos,
                "eos_token": eos,
                "messages": messages,
                "add_generation_prompt": generate,
                "variables": variables,
            }
            cases.append(case | render(case))
    (out / "chat_templates.json").write_text(rows(cases) + "\n", encoding="utf-8")
    print(f"chat_templates.json: {len(TEMPLATES)} templates, {len(cases)} cases")


def render(case):
    """Renders one case as transformers does: the text, or the message of the error."""
    tokens = {key: case[key] or "" for key in ("bos_token", "eos_token")}
    try:
        rendered, _ = render_jinja_template(
            [case["messages"]],
            chat_template=case["template"],
            add_generation_prompt=case["add_generation_prompt"],
            **tokens,
            **case["variables"],
        )
    except TemplateError as error:
        return {"error": str(error)}
    return {"expected": rendered[0]}

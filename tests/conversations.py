# SPDX-License-Identifier: Apache-2.0
"""Conversations that chat templates are tried on: (messages, tools, variables)."""

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Wetter für <Ort> & \"mehr\"", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "Stadt"}, "days": {"type": "integer"}},
        "required": ["city"]}}},
    {"type": "function", "function": {"name": "add", "description": "a+b", "parameters": {"type": "object", "properties": {}}}},
]


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(name, arguments, **more):
    return {"type": "function", "id": "abcdefgh1", "function": {"name": name, "arguments": arguments}, **more}


def tool(content, **more):
    return {"role": "tool", "content": content, "tool_call_id": "abcdefgh1", **more}


MESSAGES = {
    "one question": [user("What is 2+2?")],
    "one turn": [user("What is 2+2?"), assistant("Four.")],
    "system and a question": [system("Be brief."), user("Hi")],
    "system and turns": [system("Be brief."), user("Hi"), assistant("Hello!"), user("And?"), assistant("Nothing.")],
    "three turns": [user("a"), assistant("b"), user("c"), assistant("d"), user("e"), assistant("f")],
    "unicode": [user("Größe 😀 中文 \u00a0 é"), assistant("日本語 – “quoted” <|x|> 'single' \"double\"")],
    "blanks around": [user("  padded \n"), assistant("\n\n framed  \n")],
    "empty contents": [user(""), assistant("")],
    "line ends": [user("a\r\nb\n\n\nc"), assistant("d\n\n\ne\r\n")],
    "jinja in contents": [user("{{ 1 + 1 }} {% if %} {# c #}"), assistant("}} %} {{ x }}")],
    "thoughts": [user("q"), assistant("<think>\nhmm\n</think>\n\nanswer"), user("again"), assistant("<think>\nmore\n</think>\n\nsecond")],
    "separate thoughts": [user("q"), assistant("answer", reasoning_content="because"), user("r"), assistant("s", reasoning_content="since")],
    "tool call": [user("Weather?"), assistant("", tool_calls=[call("get_weather", {"city": "Köln", "days": 2})]), tool("{\"rain\": true}"), assistant("It rains.")],
    "tool call with words": [user("Weather?"), assistant("Let me see.", tool_calls=[call("add", {})]), tool("3"), assistant("Three.")],
    "two tool calls": [user("Both"), assistant("", tool_calls=[call("add", {"a": 1.5, "b": [1, None, True]}), call("get_weather", {"city": "x'y\"z"})]), tool("1"), tool("2"), assistant("Done")],
    "thoughts and tools": [user("q"), assistant("<think>\na\n</think>\n\nlook", tool_calls=[call("add", {"a": 1})]), tool("1"), assistant("<think>\nb\n</think>\n\ndone"), user("r"), assistant("<think>\nc\n</think>\n\nlast")],
    "same words twice": [user("echo"), assistant("echo"), user("echo"), assistant("echo")],
    "parts": [user([{"type": "text", "text": "look"}, {"type": "text", "text": " here"}]), assistant("ok")],
    "ends with a tool": [user("q"), assistant("", tool_calls=[call("add", {"a": 1})]), tool("42")],
    "many turns": [message for idx in range(15) for message in (user(f"question {idx} of many"), assistant(f"answer {idx} é"))],
    "many turns and tools": [message for idx in range(8) for message in (
        user(f"question {idx} of many"), assistant("", tool_calls=[call("add", {"a": idx})]), tool(str(idx)),
        assistant(f"answer {idx}", reasoning_content=f"thought {idx}"))],
    "assistant first": [assistant("I start."), user("ok"), assistant("good")],
}

SETTINGS = [
    {}, {"add_generation_prompt": True}, {"tools": TOOLS}, {"tools": TOOLS, "add_generation_prompt": True},
    {"enable_thinking": False}, {"enable_thinking": False, "add_generation_prompt": True},
]

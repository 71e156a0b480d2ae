"""What the playback models of make_model.py say, token by token, each script by its name.

A piece is a token; after `LOOP:n` it goes on without end from the piece n, counted from 0.
"""

END = "<|im_end|>"
NEXT = object()  # the piece before it starts a new phase (piece must be unique to the script)


def split(*values):
    """A character in several tokens, a byte each."""
    return [bytes([value]) for value in values]


# fmt: off
SCRIPTS = {
    "plain": ["Hello", ",", " world", "!", END],
    "empty": [END],
    "count": ["One", " two", " three", " four", " five", " six", " seven", " eight",
              " nine", " ten", " eleven", " twelve", ".", END],
    "loop": [" na", " batman", NEXT, " na", "LOOP:1"],
    "reason": ["<think>", "\n", "I", " count", ".\n", "</think>", "\n\n", "One", ", two",
               ", three", ".", END],
    "reasonopen": ["I", " count", ".\n", "</think>", "\n\n", "One", ", two", ", three", ".", END],
    "reasononly": ["<think>", "\n", "I", " count", " and", "LOOP:2"],
    "tool": ["<tool_call>", "\n", '{"', "name", '":', ' "', "get_weather", '",', ' "arguments":',
             ' {"', "city", '": "', "Paris", '"}}\n', "</tool_call>", END],
    "toolempty": ["<tool_call>", "\n", '{"', "name", '":', ' "', "ping", '",', ' "arguments":',
             " {}}\n", "</tool_call>", END],
    "tooltwo": ["<tool_call>", "\n", '{"', "name", '":', ' "', "get_weather", '",', ' "arguments":',
                ' {"', "city", '": "', "Rome", '"}}\n', "</tool_call>", "\n.. ", NEXT,
                "<tool_call>", "\n", '{"', "name", '":', ' "', "get_weather", '",', ' "arguments":',
                ' {"', "city", '": "', "Oslo", '"}}\n', "</tool_call>", END],
    "toolpair": ["<tool_call>", "\n", '{"', "name", '":', ' "', "get_weather", '",', ' "arguments":',
                ' {"', "city", '": "', "Lima", '"} }\n', NEXT, "</tool_call>", "\n",
                "<tool_call>", "\n{", '"name', '":', ' "', "get_weather", '",', ' "arguments":',
                ' {"', "city", '": "', "Kyiv", '"}}\n ', NEXT, "</tool_call>", END],
    "thinktool": ["<think>", "\n", "Need", " weather", ".\n", "</think>", "\n\n", "<tool_call>",
                  "\n{", '"name', '":', ' "', "get_weather", '",', ' "arguments":', ' {"', "city",
                  '": "', "Paris", '"}}\n', "</tool_call>", END],
    "texttool": ["Let", " me", " look", ".\n", "<tool_call>", "\n", '{"', "name", '":', ' "',
                 "get_weather", '",', ' "arguments":', ' {"', "city", '": "', b"Malm\xc3", b"\xb6",
                 '"}}\n', "</tool_call>", "\n\n", "Done", ".", END],
    "toolbad": ["<tool_call>", "\n", '{"', "name", '":', " oops", "}\n", "</tool_call>", END],
    "toolnoargs": ["<tool_call>", "\n", '{"', "name", '":', ' "', "get_weather", '"}\n',
                   "</tool_call>", END],
    "toolopen": ["<tool_call>", "\n", '{"', "name", '":', ' "', "get_weather", '",', ' "arguments":',
             ' {"', "city", '": "', "Paris", '"}}\n', END],
    "toolextra": ["<tool_call>", "\n", '{"', "name", '":', ' "', "get_weather", '",', ' "id":',
             ' "call_7",', ' "arguments":', ' "not a dict"', "}\n", "</tool_call>", END],
    "toolfake": ["Write", " <tool", "_x", "> or", " <", "think", " about", " it", ".", END],
    "json": ['{"', "ok", '":', " true", "}", END],
    "utf8": ["caf", *split(0xC3, 0xA9), ", ", *split(0xE4, 0xB8, 0x96, 0xE7, 0x95, 0x8C), ": ",
             *split(0xF0, 0x9F, 0x98, 0x80), "!", END],
    "badutf8": ["ok", *split(0xFF), " then", *split(0xE2, 0x82), " end", END],
    "stop": ["One", ", two", *split(0x45, 0x4E), " route", ". ", NEXT, *split(0x45, 0x4E, 0x44), " of",
             " line", ".", END],
    "lines": ["a", "\u2028", "b", "\u2029", "c", "\u0085", "d", "\r\n", "e", "\r", "f",
              "\x0b", "g", "\x0c", "h", "\x1c", "i", "\ufeff", "j", "\n\ndata: [DONE]\n\n",
              "k", END],
    "xmltool": ["<tool_call>", "\n<function=", "get_weather", ">\n", "<parameter=", "city", ">\nBern", "\n</",
                "parameter", ">\n</", "function", ">", "\n", "</tool_call>", END],
    "thinkopen": ["<think>", "\n", "I", " count", ".\n", END],
    "thinktoolin": ["<think>", "\n", "Need", " weather", ".\n", "<tool_call>",
                  "\n{", '"name', '":', ' "', "get_weather", '",', ' "arguments":', ' {"', "city",
                  '": "', "Paris", '"}}\n', "</tool_call>", END],
    "rethink": ["<think>", "\n", "I", "</think>", "\n\n", "One", ". and ", NEXT, "<think>", "\nNeed",
                "</think>", "\n\nDone", END],
    "toolscalar": ["<tool_call>", "\n", "42", "\n\n", "</tool_call>", END],
    "nul": ["x", "\x00", "y", "\x7f", "z", "</script>", "&", '"q"', "\\u00e9", END],
}
# fmt: on


def is_loop(piece):
    return isinstance(piece, str) and piece.startswith("LOOP:")

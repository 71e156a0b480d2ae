"""An answer's bytes become events; no socket, no file and no waiting in here, and no clock but the one that is passed.

In:   blocks of bytes, cut anywhere; or the bytes of one whole JSON document.
Out:  events in order, the `Completion` last; or a `StreamError` that carries the answer so far.

Files, in the order in which to read them:

sse.py        blocks -> payloads: framing, which knows neither JSON nor chat
chunks.py     payload -> `Chunk`: the fields that are read, and the typed decoder
reader.py     what each payload is, which of the paths below it takes, and what the end of the stream means
turn.py       the answer so far: what a chunk adds to it, its events, and whether its end makes it a whole answer
carriers.py   the table of the fields in which pieces are streamed, and of what goes back; think tags
calls.py      pieces of tool calls -> tool calls
usage.py      the names that servers have for token counts
failure.py    what a status, an error object, an envelope or a finish reason means
tolerant.py   the slow path: payloads that the decoder refuses, keep-alives, halves of characters
template.py   the fast path: a chunk that differs from the one before it in one string
models.py     a list of models, in the shape of any server

A payload takes one of three paths, which all make the same events: `template`, the typed decoder, or `tolerant`.

Rules: WHATWG HTML, 9.2 (server-sent events); OpenAI's API reference, chat completions; and what servers really send,
each with its name beside the rule. What breaks a rule is listed in `Completion.repairs`, or is an error where accepting
it would lose or invent a part of the answer, or run a call that nobody made; in strict mode it is always an error.
"""

"""An answer's bytes become events; no socket, no file and no waiting in here, and no clock but the one that is passed.

In:   blocks of bytes, cut anywhere; or the bytes of one whole JSON document.
Out:  events in order, the `Completion` last; or a `StreamError` that carries the answer so far.

Files, in the order in which to read them:

sse.py        blocks -> payloads
chunks.py     the fields that are read, and the decoder: payload -> `Chunk`
reader.py     payloads in order: what each of them is, and what the end of the stream means
turn.py       the answer so far: what a chunk adds to it, its events, and whether its end makes it an answer
carriers.py   the table of the fields in which pieces are streamed, and of what goes back; think tags
calls.py      pieces of tool calls -> tool calls
failure.py    what a status, an error object, an envelope or a finish word means
tolerant.py   the slow path: payloads that the decoder refuses, keep-alives, halves of characters
template.py   the fast path: a chunk that differs from the one before it in one string
models.py     a list of models, in the shape of any server

Rules: WHATWG HTML, 9.2 (server-sent events); OpenAI's API reference, chat completions; and what servers really send,
each with its name beside the rule. What breaks a rule is listed in `Completion.repairs`, or is an error where accepting
it would lose or invent a part of the answer, or run a call that nobody made; in strict mode it is always an error.
"""

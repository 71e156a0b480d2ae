"""Plain data -> the bytes of a request, of known length; opens files, never sockets.

In:   messages and options as plain data, in which a medium or a text file may stand wherever a string may.
Out:  a `Body`: its length, exact before its first byte is read, and its blocks, as often as they are asked for.

Files, in the order in which to read them:

messages.py   what callers write: messages in the API's form, and how text and attachments are laid out in one
options.py    every field of a request once, with its type and bounds
media.py      pictures, sound and film as base64, and the media type that first bytes tell
textfile.py   text files as escaped text
body.py       all of that as one JSON text, cut where a medium or a file stands
sources.py    the open files behind it, and how they are read; the only file that opens any

Rules: OpenAI's API reference (chat completions), SGLang's and vLLM's pages for what they add to it, RFC 8259 (JSON),
RFC 4648 (base64), WHATWG MIME Sniffing (media types).
"""

"""Requests go out and answers come back, each within its limits; the only place that imports urllib3.

In:   a method, a path, headers and the blocks of a body, under the deadline of one call.
Out:  a `Response`: status, headers, and its body block by block as it comes, without framing and content coding.

Files, in the order in which to read them:

address.py       the base URL in its one form, and the proxy on the way
headers.py       headers that go out, and the secrets among them, which no error may repeat
deadline.py      what bounds the waits of one call in time, and ends them on cancel
pool.py          the connections to one server: idle ones, the newest first, and new ones
certificates.py  the certificates of authorities, and what to do where there are none
connection.py    one connection: it connects, sends, receives under the deadline; what is private in urllib3 is here
response.py      the head of an answer, its body, and whether the connection can be used again
framing.py       where a body ends, and how it is unpacked

Rules: RFC 9112 (HTTP/1.1: messages, framing, reuse), RFC 9110 (interim answers, content codings), RFC 6750 (the key as
a bearer token), and `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` as the standard library reads them.
"""

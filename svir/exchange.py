"""One request on its way: its body, its tries, and what is left out when a server refuses a field."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .answer import failure
from .errors import Detail, NotAStreamError, SvirError, clip
from .hooks import Watch
from .limits import Limits
from .request import options
from .request.body import Body
from .request.sources import Sources
from .wire import retry
from .wire.address import without_query
from .wire.answer import Answer
from .wire.call import Call
from .wire.connection import Wire
from .wire.headers import Headers
from .wire.retry import Attempts

logger: logging.Logger = logging.getLogger("svir")

JSON, STREAM = "application/json", "text/event-stream"


class Exchange:
    """A request that can be sent again, until its answer begins.

    Args:
        wire: the connections to the server.
        call: the limits of the whole call.
        attempts: its tries.
        headers: gives the headers of a try, the key among them.
        path: below the base URL.
        watch: what the hooks are told through.
        wanted: the media type of a good answer.
        limits: bounds on the answer.
        fields: the request; without it the method is GET.
        on_upload: see `Client.stream`.
        refused: optional fields that this server is known to refuse; what is learnt is added.
        may_leave_out: whether optional fields may be left out at all.
    """

    def __init__(
        self,
        wire: Wire,
        call: Call,
        attempts: Attempts,
        headers: Callable[[], dict[str, str]],
        path: str,
        *,
        watch: Watch,
        wanted: str,
        limits: Limits,
        fields: Mapping[str, Any] | None = None,
        on_upload: Callable[[int, int], object] | None = None,
        refused: set[str] | None = None,
        may_leave_out: bool = False,
    ) -> None:
        self._wire = wire
        self._call = call
        self._attempts = attempts
        self._headers = headers
        self._path = path
        self._watch = watch
        self._wanted = wanted
        self._limits = limits
        self._fields = fields
        self._on_upload = on_upload
        self._refused = set() if refused is None else refused
        self._may_leave_out = may_leave_out
        self._sent_headers = Headers()
        self._sources = Sources()
        self._body: Body | None = None
        self._left_out: set[str] = set()
        self.repairs: list[str] = []
        """The optional fields left out, in words."""
        if fields is not None:
            self._leave_out(self._refused & fields.keys() if may_leave_out else set())

    def close(self) -> None:
        """Lets go of the request and of the files that it was read from: it will not be sent again."""
        if self._body is not None:
            self._body.close()
        self._sources.close()

    def send(self) -> Answer:
        """The head of a good answer, after as many tries as `Retry` allows.

        Raises:
            SvirError: the last failure.
        """
        while True:
            try:
                answer = self._try()
            except SvirError as error:
                self.conceal(error)
                if self._made_leaner(error):
                    self._told(error)
                else:
                    self.again(error)
                continue
            self._refused.update(self._left_out)
            return answer

    def again(self, error: SvirError, /) -> None:
        """Waits until the request may be sent again; raises `error` when it may not."""
        self._attempts.next(error, self._told)

    def _told(self, error: SvirError) -> None:
        self._watch.fails(error, again=True)

    def _try(self) -> Answer:
        self._sent_headers = headers = Headers({"Accept": self._wanted, **self._headers()})
        method, blocks, length = "GET", None, 0
        if self._body is not None:
            method, blocks, length = "POST", self._uploaded(self._body), self._body.length
            headers |= {"Content-Type": JSON, "Content-Length": str(length)}
        self._watch.sends(method, self._wire.address.url(self._path), self._fields or {}, length)
        answer = self._wire.send(self._call, method, self._path, headers, blocks, self._limits)
        logger.debug("%s %s%s: %s", method, self._wire.address.base, self._path, answer.status)
        self._check(answer)
        return answer

    def _uploaded(self, body: Body) -> Iterable[bytes]:
        return body if self._on_upload is None else _Upload(body, self._on_upload)

    def conceal(self, error: SvirError, /) -> None:
        """Takes out of an error what this request told the server in confidence, if the server repeats it."""
        self._wire.conceal(error, self._sent_headers)

    def _check(self, answer: Answer) -> None:
        """Raises what the head of the answer says, unless it is the wanted one."""
        if failure.is_success(answer.status) and answer.media_type == self._wanted:
            return
        try:
            # Some servers stall the body of a 401: what is not there at once is not waited for.
            seconds = 0.05 if failure.is_denial(answer.status) else self._limits.error_wait
            start = answer.beginning(self._limits.error_body, seconds)
        finally:
            answer.release(done=False)
        detail = failure.in_body(start)
        body = start.decode(errors="replace")
        if not failure.is_success(answer.status):
            if not detail.message and (there := answer.headers.get("location")):
                detail = Detail(message=f"moved to {without_query(there)}, and no redirect is followed")
            wait = retry.asked_delay(answer.headers, time.time())
            error: SvirError = failure.of_status(answer.status, answer.reason, detail, body=body, retry_after=wait)
        else:
            got = f"{answer.media_type or 'no content type'}: {clip(detail.message or body)}"
            error = NotAStreamError(
                f"expected {self._wanted}, got {got}", status=answer.status, detail=detail, body=body
            )
        error.request_id = answer.request_id
        raise error

    def _made_leaner(self, error: SvirError) -> bool:
        """Leaves out the optional fields that a rejection is about, once; returns whether there were any.

        That is no retry: nothing was generated for a request that was rejected as a whole.
        """
        if self._fields is None or not self._may_leave_out or self.repairs or not failure.is_about_fields(error):
            return False
        names = options.refused(self._fields, failure.rejection(error)).fields
        if names:
            self._leave_out(names)
        return bool(names)

    def _leave_out(self, names: set[str]) -> None:
        self._left_out = names
        fields = {name: value for name, value in (self._fields or {}).items() if name not in names}
        self._body = Body(fields, self._sources)
        self.repairs += [f"{name} left out, because the server refused it" for name in sorted(names)]


class _Upload:
    """A body that tells how much of it was taken: a block is, when the next one is asked for."""

    def __init__(self, body: Body, on_upload: Callable[[int, int], object]) -> None:
        self._body = body
        self._on_upload = on_upload

    def __iter__(self) -> Iterator[bytes]:
        sent = 0
        for block in self._body:
            yield block
            sent += len(block)
            self._on_upload(sent, self._body.length)

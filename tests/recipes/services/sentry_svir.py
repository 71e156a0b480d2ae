"""Sentry: a breadcrumb for each answer and each try that failed, made by the hooks of a client.

svir writes HTTP itself on urllib3's connections, so Sentry's own patch of `http.client` sees no call, and breaks none.
No prompt and no key is in what the hooks are given.
"""

import sentry_sdk

import svir


def answered(info: svir.ResponseInfo) -> None:
    leave("info", info.request, status_code=info.status, request_id=info.request_id, seconds=info.seconds)


def failed(info: svir.ErrorInfo) -> None:
    leave("warning", info.request, status_code=info.status, request_id=info.request_id, reason=info.error)


def leave(level: str, request: svir.RequestInfo, **data: object) -> None:
    data |= {"method": request.method, "url": request.url, "model": request.model, "attempt": request.attempt}
    sentry_sdk.add_breadcrumb(type="http", category="svir", level=level, data=data)


client = svir.Client(on_response=answered, on_error=failed)  # OPENAI_BASE_URL and OPENAI_API_KEY

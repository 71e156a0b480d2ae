"""Every exception is made as its docstring says, has what it says, and survives a pickle and a copy."""

import copy
import inspect
import pickle
import re
from typing import Any, cast

import pytest

import svir
from svir import errors
from svir.errors import Detail

NAMED = [getattr(svir, name) for name in svir.__all__]
PUBLIC = [kind for kind in NAMED if isinstance(kind, type) and issubclass(kind, Exception)]
IN_A_STREAM = [
    errors.StreamAuthenticationError,
    errors.StreamFilterError,
    errors.StreamOverflowError,
    errors.StreamRateLimitError,
    errors.StreamRejectedError,
]

# What an argument of that name may be.
SAMPLES: dict[str, Any] = {
    "text": "it broke",
    "phase": "connect",
    "status": 422,
    "detail": Detail(message="words", code="c", type="t", param="p", status=400, retry_after=3.0),
    "body": "{}",
    "retry_after": 2.5,
}


def maker(kind: type) -> type:
    """The class whose constructor makes it, `Exception` where svir has none of its own."""
    own = (base for base in kind.__mro__ if base.__module__.startswith("svir") and "__init__" in vars(base))
    return next(own, Exception)


def documented(kind: type, section: str) -> list[str]:
    """The names in a section of its docstring, or of the first base that has the section."""
    for base in kind.__mro__:
        doc = inspect.cleandoc(vars(base).get("__doc__") or "")
        if found := re.search(rf"^{section}:\n((?: .*\n?)+)", doc, re.MULTILINE):
            entries = re.findall(r"^ {4}(\w[\w, ]*):", found[1], re.MULTILINE)
            return [name for entry in entries for name in entry.split(", ")]
    return []


def parameters(kind: type) -> dict[str, inspect.Parameter]:
    if maker(kind) is Exception:
        return {}
    taken = dict(inspect.signature(cast(Any, maker(kind)).__init__).parameters)
    del taken["self"]
    return taken


@pytest.mark.parametrize("kind", [*PUBLIC, *IN_A_STREAM])
def test_an_exception_documents_the_arguments_that_it_takes_and_no_others(kind: type) -> None:
    assert documented(kind, "Args") == list(parameters(kind))


@pytest.mark.parametrize("kind", [*PUBLIC, *IN_A_STREAM])
def test_an_exception_has_the_attributes_that_it_documents_and_no_others(kind: Any) -> None:
    error = kind("it broke")
    names = {name for base in kind.__mro__ for name in documented(base, "Attributes")}
    assert {name for name in names if not hasattr(error, name)} == set()
    assert set(vars(error)) <= names


@pytest.mark.parametrize("kind", [*PUBLIC, *IN_A_STREAM])
def test_an_exception_made_with_all_its_arguments_survives_a_pickle_and_a_copy(kind: Any) -> None:
    options = {name: SAMPLES[name] for name, each in parameters(kind).items() if each.kind is each.KEYWORD_ONLY}
    error = kind("it broke", **options)
    error.completion, error.request_id, error.retryable = svir.Completion(text="so far"), "r1", True
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(same) is kind
        assert (str(same), same.args, vars(same)) == ("it broke", ("it broke",), vars(error))


@pytest.mark.parametrize("kind", [*PUBLIC, *IN_A_STREAM])
def test_an_exception_needs_no_more_than_its_text(kind: Any) -> None:
    error = kind("it broke")
    assert (str(error), error.completion, error.request_id) == ("it broke", None, "")
    assert error.retryable is (kind is svir.ConnectError)


@pytest.mark.parametrize("kind", [svir.StatusError, svir.NotAStreamError, svir.ServerStreamError, *IN_A_STREAM])
def test_what_a_server_reported_is_on_the_error(kind: Any) -> None:
    error = kind("it broke", detail=SAMPLES["detail"])
    assert (error.message, error.code, error.type, error.param) == ("words", "c", "t", "p")
    assert (error.status, error.body, error.retry_after) == (400, "", 3.0)
    error = kind("it broke", detail=SAMPLES["detail"], status=422, body="{}", retry_after=2.5)
    assert (error.status, error.body, error.retry_after) == (422, "{}", 2.5)


@pytest.mark.parametrize("phase", ["connect", "send", "first", "idle", "progress", "total"])
def test_a_time_limit_has_its_phase_and_only_a_connection_is_tried_again(phase: Any) -> None:
    error = svir.TimedOut("it broke", phase=phase)
    assert isinstance(error, TimeoutError)
    assert (error.phase, error.retryable) == (phase, phase == "connect")


# (class, what an `except` clause may name to catch it)
CAUGHT_BY = [
    (errors.StreamAuthenticationError, svir.AuthenticationError),
    (errors.StreamRateLimitError, svir.RateLimitError),
    (errors.StreamRejectedError, svir.RejectedError),
    (errors.StreamOverflowError, svir.ContextOverflowError),
    (errors.StreamOverflowError, svir.RejectedError),
    (errors.StreamFilterError, svir.ContentFilterError),
    (errors.StreamFilterError, svir.RejectedError),
]


@pytest.mark.parametrize(("kind", "by"), CAUGHT_BY)
def test_a_failure_in_a_stream_is_caught_as_one_and_as_what_it_means(kind: type, by: type) -> None:
    assert issubclass(kind, by)
    assert issubclass(kind, svir.ServerStreamError)
    assert issubclass(kind, svir.StreamError)
    assert issubclass(kind, svir.StatusError)

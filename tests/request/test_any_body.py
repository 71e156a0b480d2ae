"""Whatever bytes come, only events and errors of svir come out: the properties of `properties.py` on drawn bodies."""

import json
import random

import pytest
from bodies import PIECES, Case, bytes_of, case_of, odd, recorded_cases
from hypothesis import example, given, settings
from hypothesis import strategies as st
from properties import assert_holds

pytestmark = pytest.mark.slow("runs through many inputs")

KINDS = st.sampled_from(["stream", "stream", "stream", "document", "models", "error"])
SIZES = st.lists(st.integers(0, 255), max_size=7).map(tuple)


def case(bodies: st.SearchStrategy[bytes], kinds: st.SearchStrategy[str] = KINDS) -> st.SearchStrategy[Case]:
    """A body of these, cut anywhere, in any mode."""
    modes = {name: st.booleans() for name in ("strict", "think_tags", "framed")}
    return st.builds(Case, kinds, bodies, SIZES, **modes)


BODIES = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=8)), max_size=30).map(b"".join)


@settings(max_examples=800, deadline=None)
@given(case(BODIES))
@example(Case("stream", b"data: [DONE]", strict=True))
@example(Case("stream", b'data: {"choices":[{"delta":null,"message":{"tool_calls":[{}]}}]}\n\n', strict=True))
def test_any_bytes_give_only_events_and_errors_of_svir(case: Case) -> None:
    assert_holds(case)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ODD_CHUNKS = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "model": JSON,
        "usage": JSON | st.fixed_dictionaries({}, optional={"prompt_tokens": JSON, "prompt_tokens_details": JSON}),
        "timings": JSON,
        "prompt_filter_results": JSON,
        "choices": JSON
        | st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "index": JSON | st.just(0),
                    "finish_reason": JSON | st.sampled_from(["stop", "length", "tool_calls"]),
                    "logprobs": JSON,
                    "content_filter_results": JSON,
                    "message": JSON,
                    "text": JSON,
                    "error": JSON,
                    "stop_reason": JSON,
                    "delta": JSON
                    | st.fixed_dictionaries(
                        {},
                        optional={
                            "content": JSON,
                            "reasoning": JSON,
                            "reasoning_details": JSON,
                            "thinking_blocks": JSON | st.just([{"type": "thinking", "thinking": "a"}]),
                            "extra_content": JSON,
                            "audio": JSON,
                            "images": JSON,
                            "refusal": JSON,
                            "function_call": JSON,
                            "tool_calls": JSON
                            | st.lists(
                                st.fixed_dictionaries(
                                    {},
                                    optional={
                                        "index": JSON | st.just(0),
                                        "id": JSON,
                                        "function": JSON
                                        | st.fixed_dictionaries({}, optional={"name": JSON, "arguments": JSON}),
                                        "custom": JSON
                                        | st.fixed_dictionaries({}, optional={"name": JSON, "input": JSON}),
                                        "type": JSON,
                                        "x": JSON,
                                    },
                                ),
                                max_size=2,
                            ),
                        },
                    ),
                },
            ),
            max_size=2,
        ),
    },
)


STREAMS = st.lists(ODD_CHUNKS, min_size=1, max_size=4).map(
    lambda chunks: b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"
)


@settings(max_examples=600, deadline=None)
@given(case(STREAMS, st.just("stream")))
def test_any_value_in_any_field_of_a_chunk_gives_only_events_and_errors_of_svir(case: Case) -> None:
    assert_holds(case)


@settings(max_examples=300, deadline=None)
@given(case(ODD_CHUNKS.map(lambda chunk: json.dumps(chunk).encode()), st.sampled_from(["document", "models", "error"])))
def test_any_value_in_any_field_of_a_document_gives_only_events_and_errors_of_svir(case: Case) -> None:
    assert_holds(case)


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from([*recorded_cases()]), st.integers(0, 2**32), st.integers(1, 3))
def test_odd_values_in_a_recorded_answer_give_only_events_and_errors_of_svir(case: Case, seed: int, times: int) -> None:
    chance = random.Random(seed)
    for _ in range(times):
        case = odd(case, chance) or case
    assert_holds(case)


@given(case(st.binary(max_size=50)))
def test_bytes_that_stand_for_a_case_give_it_back(case: Case) -> None:
    assert case_of(bytes_of(case)) == case

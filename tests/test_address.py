"""The address that is asked: what people write, and what is refused without being shown."""

import pytest

import svir

# (what people write, the URL that is asked)
BASES = [
    ("http://localhost:1234", "http://localhost:1234/v1/models"),
    ("http://localhost:1234/", "http://localhost:1234/v1/models"),
    ("http://localhost:1234/v1", "http://localhost:1234/v1/models"),
    ("http://localhost:1234/v1//", "http://localhost:1234/v1/models"),
    ("https://name.openai.azure.com/openai/v1/", "https://name.openai.azure.com/openai/v1/models"),
    ("http://host/proxy", "http://host/proxy/v1/models"),
    ("http://[::1]:8080", "http://[::1]:8080/v1/models"),
    ("HTTP://Host:80/v1", "http://Host:80/v1/models"),
]


@pytest.mark.parametrize(("written", "asked"), BASES)
def test_a_base_url_is_taken_with_and_without_v1(written: str, asked: str) -> None:
    assert svir.Client(written)._pool.address.url("/models") == asked


@pytest.mark.parametrize(
    "written",
    [
        "",
        "localhost:1234",
        "ftp://host",
        "http://",
        "http://user:secret@host",
        "http://secret@host/v1",
        "http://host/v1?key=secret",
        "http://host/v1#secret",
        "http://host/v1?",
        "http://host:99999",
        "http://ho st/",
        "http://host\r\nX: secret/",
    ],
)
def test_a_base_url_of_another_kind_is_refused_without_showing_it(written: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        svir.Client(written)
    assert "secret" not in str(caught.value)

"""The address that is asked: what people write, what providers document, and what is refused without being shown."""

from typing import Any

import pytest
from answers import HELLO
from faulty import client_of

import svir
from svir.testing import Answer, ReplayServer

# (what people write, the URL that is asked)
BASES = [
    ("http://localhost:1234", "http://localhost:1234/v1/models"),
    ("http://localhost:1234/", "http://localhost:1234/v1/models"),
    ("http://localhost:1234/v1", "http://localhost:1234/v1/models"),
    ("http://localhost:1234/v1//", "http://localhost:1234/v1/models"),
    ("http://localhost:1234/v1/chat/completions", "http://localhost:1234/v1/models"),
    ("http://localhost:1234/v1/chat/completions/", "http://localhost:1234/v1/models"),
    ("http://localhost:1234/chat/completions", "http://localhost:1234/models"),
    ("http://host/proxy", "http://host/proxy/models"),
    ("http://host/proxy/", "http://host/proxy/models"),
    ("http://host/v1/proxy", "http://host/v1/proxy/models"),
    ("http://host/a%20b/ä", "http://host/a%20b/%C3%A4/models"),
    ("http://host./v1", "http://host./v1/models"),
    ("http://my_service:8000", "http://my_service:8000/v1/models"),
    ("http://xn--bcher-kva.example", "http://xn--bcher-kva.example/v1/models"),
    ("http://[::1]:8080", "http://[::1]:8080/v1/models"),
    ("HTTP://Host:80/v1", "http://Host:80/v1/models"),
]

# provider or server -> (the base URL of its own documentation for OpenAI's library, the URL of a chat there); where
# that base has no path and no `/v1` is meant, the documented URL of the endpoint
DOCUMENTED = {
    "OpenAI": ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
    "Azure OpenAI, v1": (
        "https://NAME.openai.azure.com/openai/v1/",
        "https://NAME.openai.azure.com/openai/v1/chat/completions",
    ),
    "Azure OpenAI, by deployment": (
        "https://NAME.openai.azure.com/openai/deployments/D",
        "https://NAME.openai.azure.com/openai/deployments/D/chat/completions",
    ),
    "Azure AI Foundry": (
        "https://NAME.services.ai.azure.com/models",
        "https://NAME.services.ai.azure.com/models/chat/completions",
    ),
    "Gemini": (
        "https://generativelanguage.googleapis.com/v1beta/openai/",
        "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
    ),
    "Vertex AI": (
        "https://aiplatform.googleapis.com/v1/projects/P/locations/global/endpoints/openapi",
        "https://aiplatform.googleapis.com/v1/projects/P/locations/global/endpoints/openapi/chat/completions",
    ),
    "Amazon Bedrock": (
        "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1",
        "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1/chat/completions",
    ),
    "Bedrock Access Gateway (a sample of AWS)": ("http://HOST/api/v1", "http://HOST/api/v1/chat/completions"),
    "Anthropic": ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/chat/completions"),
    "Groq": ("https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1/chat/completions"),
    "Mistral": ("https://api.mistral.ai/v1", "https://api.mistral.ai/v1/chat/completions"),
    "DeepSeek": ("https://api.deepseek.com", "https://api.deepseek.com/v1/chat/completions"),
    "Z.ai": ("https://api.z.ai/api/paas/v4/", "https://api.z.ai/api/paas/v4/chat/completions"),
    "Z.ai, coding plan": (
        "https://api.z.ai/api/coding/paas/v4",
        "https://api.z.ai/api/coding/paas/v4/chat/completions",
    ),
    "Volcengine Ark": (
        "https://ark.cn-beijing.volces.com/api/v3",
        "https://ark.cn-beijing.volces.com/api/v3/chat/completions",
    ),
    "DashScope": (
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions",
    ),
    "Moonshot": ("https://api.moonshot.ai/v1", "https://api.moonshot.ai/v1/chat/completions"),
    "Baidu Qianfan": ("https://qianfan.baidubce.com/v2", "https://qianfan.baidubce.com/v2/chat/completions"),
    "MiniMax": ("https://api.minimax.io/v1", "https://api.minimax.io/v1/chat/completions"),
    "xAI": ("https://api.x.ai/v1", "https://api.x.ai/v1/chat/completions"),
    "Together": ("https://api.together.xyz/v1", "https://api.together.xyz/v1/chat/completions"),
    "Fireworks": (
        "https://api.fireworks.ai/inference/v1",
        "https://api.fireworks.ai/inference/v1/chat/completions",
    ),
    "Perplexity": ("https://api.perplexity.ai/chat/completions", "https://api.perplexity.ai/chat/completions"),
    "Cerebras": ("https://api.cerebras.ai/v1", "https://api.cerebras.ai/v1/chat/completions"),
    "SambaNova": ("https://api.sambanova.ai/v1", "https://api.sambanova.ai/v1/chat/completions"),
    "OpenRouter": ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/chat/completions"),
    "GitHub Models": ("https://models.github.ai/inference", "https://models.github.ai/inference/chat/completions"),
    "GitHub Copilot": (
        "https://api.githubcopilot.com/chat/completions",
        "https://api.githubcopilot.com/chat/completions",
    ),
    "Cloudflare Workers AI": (
        "https://api.cloudflare.com/client/v4/accounts/A/ai/v1",
        "https://api.cloudflare.com/client/v4/accounts/A/ai/v1/chat/completions",
    ),
    "Cloudflare AI Gateway": (
        "https://gateway.ai.cloudflare.com/v1/A/G/compat",
        "https://gateway.ai.cloudflare.com/v1/A/G/compat/chat/completions",
    ),
    "Databricks": (
        "https://NAME.cloud.databricks.com/serving-endpoints",
        "https://NAME.cloud.databricks.com/serving-endpoints/chat/completions",
    ),
    "Snowflake": (
        "https://NAME.snowflakecomputing.com/api/v2/cortex/v1",
        "https://NAME.snowflakecomputing.com/api/v2/cortex/v1/chat/completions",
    ),
    "Telnyx": ("https://api.telnyx.com/v2/ai/openai", "https://api.telnyx.com/v2/ai/openai/chat/completions"),
    "DeepInfra": ("https://api.deepinfra.com/v1/openai", "https://api.deepinfra.com/v1/openai/chat/completions"),
    "Hugging Face": ("https://router.huggingface.co/v1", "https://router.huggingface.co/v1/chat/completions"),
    "NVIDIA": ("https://integrate.api.nvidia.com/v1", "https://integrate.api.nvidia.com/v1/chat/completions"),
    "Cohere": ("https://api.cohere.ai/compatibility/v1", "https://api.cohere.ai/compatibility/v1/chat/completions"),
    "LM Studio": ("http://localhost:1234/v1", "http://localhost:1234/v1/chat/completions"),
    "LM Studio, as it prints itself": ("http://localhost:1234", "http://localhost:1234/v1/chat/completions"),
    "mlx-lm, mlx-vlm": ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/chat/completions"),
    "llama.cpp": ("http://localhost:8080/v1", "http://localhost:8080/v1/chat/completions"),
    "vLLM": ("http://localhost:8000/v1", "http://localhost:8000/v1/chat/completions"),
    "SGLang": ("http://127.0.0.1:30000/v1", "http://127.0.0.1:30000/v1/chat/completions"),
    "Ollama": ("http://localhost:11434/v1/", "http://localhost:11434/v1/chat/completions"),
    "transformers serve": ("http://localhost:8000/v1", "http://localhost:8000/v1/chat/completions"),
    "LiteLLM proxy": ("http://0.0.0.0:4000", "http://0.0.0.0:4000/v1/chat/completions"),
    "Docker Model Runner": (
        "http://localhost:12434/engines/v1",
        "http://localhost:12434/engines/v1/chat/completions",
    ),
    "Open WebUI": ("http://localhost:3000/api", "http://localhost:3000/api/chat/completions"),
}


@pytest.mark.parametrize(("written", "asked"), BASES)
def test_no_path_means_v1_and_any_other_stands_as_it_is(written: str, asked: str) -> None:
    assert svir.Client(written)._pool.address.url("/models") == asked


@pytest.mark.parametrize("provider", DOCUMENTED)
def test_the_documented_base_of_a_provider_leads_to_its_endpoint(provider: str) -> None:
    written, asked = DOCUMENTED[provider]
    assert svir.Client(written)._pool.address.url("/chat/completions") == asked
    assert svir.Client(asked)._pool.address.url("/chat/completions") == asked


@pytest.mark.parametrize("path", ["", "/api/paas/v4/", "/chat/completions", "/openai/deployments/D"])
def test_chat_and_models_are_asked_side_by_side(path: str) -> None:
    base = {"": "/v1", "/chat/completions": ""}.get(path, path.rstrip("/"))
    listed = Answer.json({"object": "list", "data": [{"id": "m"}]})
    with ReplayServer(HELLO, listed) as server, client_of(server.url + path) as client:
        assert client.complete("hi").text == "Hello, world"
        assert [model.id for model in client.models()] == ["m"]
    assert [request.path for request in server.requests] == [f"{base}/chat/completions", f"{base}/models"]


# what is written -> words of the error, which says where it belongs
REFUSED = {
    "": "such as http://localhost:1234",
    "localhost:1234": "such as http://localhost:1234",
    "ftp://host": "such as http://localhost:1234",
    "http://": "such as http://localhost:1234",
    "http://host:99999": "such as http://localhost:1234",
    "http://user:secret@host": "api_key=",
    "http://secret@host/v1": "api_key=",
    "http://host/v1?key=secret": "query={...}",
    "http://host/chat/completions?api-version=secret": "query={...}",
    "http://host/v1?": "query={...}",
    "http://host/v1#secret": "fragment",
    "http://host/v1#": "fragment",
    "http://ho st/": "blanks",
    "http://host\r\nX: secret/": "control characters",
    "http://a..secret/": "single dots",
    "http://.secret": "single dots",
    "http://secret..": "single dots",
    "http://bücher.example/": "ASCII letters",
    "http://ex\u0430mple.com/": "ASCII letters",
    "http://ho|st/": "ASCII letters",
    f"http://{'a' * 64}.example": "ASCII letters",
}


@pytest.mark.parametrize("written", REFUSED)
def test_a_base_url_of_another_kind_is_refused_with_a_cure_and_without_showing_it(written: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        svir.Client(written)
    assert REFUSED[written] in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["a..secret", "b\u00fccher.example"])
def test_a_proxy_whose_host_is_no_name_is_refused_like_a_server(host: str) -> None:
    with pytest.raises(svir.RequestError, match="a proxy's URL whose host has ASCII letters"):
        svir.Client("http://example.invalid", proxy=f"http://{host}:3128")


# What every request carries


def test_a_query_stands_behind_the_path_of_every_request() -> None:
    listed = Answer.json({"object": "list", "data": []})
    query = {"api-version": "2024-10-21", "a b": "ä&=?#/+*"}
    with ReplayServer(HELLO, listed) as server, client_of(server.url, query=query) as client:
        client.complete("hi")
        client.models()
    sent = "?api-version=2024-10-21&a%20b=%C3%A4%26%3D%3F%23%2F%2B*"
    assert [request.path for request in server.requests] == [f"/v1/chat/completions{sent}", f"/v1/models{sent}"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("api-version=1", "expected a mapping or None as query, got str"),
        ([("a", "b")], "expected a mapping or None as query, got list"),
        ({"a": 1}, "expected a string as a in query, got int"),
        ({"a": None}, "expected a string as a in query, got NoneType"),
        ({1: "a"}, "expected strings as the names in query, got int"),
        ({"a": "\ud83d"}, "expected text in query, got half of a character"),
    ],
)
def test_a_query_of_another_kind_is_refused(query: Any, said: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        svir.Client("http://localhost", query=query)
    assert str(caught.value) == said


# A wrong base URL

# base -> the URL that was asked, and what is suggested, below the server
MISPLACED = {
    "": ("/v1/chat/completions", "without /v1 it would be {}/chat/completions"),
    "/api": ("/api/chat/completions", "with /v1 it would be {}/api/v1/chat/completions"),
    "/api/v1": ("/api/v1/chat/completions", "without /v1 it would be {}/api/chat/completions"),
    "/chat/completions": ("/chat/completions", "with /v1 it would be {}/v1/chat/completions"),
    "/api/paas/v4": ("/api/paas/v4/chat/completions", ""),
    "/v1beta/openai": ("/v1beta/openai/chat/completions", ""),
}


@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize("base", MISPLACED)
def test_a_404_and_a_405_name_the_url_that_was_asked_and_the_one_with_or_without_v1(base: str, status: int) -> None:
    asked, other = MISPLACED[base]
    no = Answer.json({"error": {"message": "Not Found"}}, status=status)
    with ReplayServer(no) as server, client_of(server.url + base, query={"api-key": "0123456789"}) as client:
        with pytest.raises(svir.StatusError) as caught:
            client.complete("hi")
    suggestion = f"; {other.format(server.url)}" if other else ""
    said = f"the server answered {status}: Not Found (asked {server.url}{asked}?api-key=***{suggestion})"
    assert str(caught.value) == said
    assert caught.value.message == "Not Found"


def test_a_404_of_the_list_of_models_names_its_url() -> None:
    no = Answer.json({"error": {"message": "Not Found"}}, status=404)
    with ReplayServer(no) as server, client_of(server.url + "/api") as client:
        with pytest.raises(
            svir.RejectedError, match=r"asked http://\S+/api/models; with /v1 it would be \S+/v1/models"
        ):
            client.models()

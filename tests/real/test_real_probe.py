"""A probe of the two mlx servers finds what their recordings show; scripts.py says the rest."""

import svir
from svir import probe

# The model plays back what the last `@name@` names, so that "ignored" is the server's doing and not the model's.
PROMPTS = probe.Prompts(
    text="@loop@",
    reasoning="@reason@",
    call="@tool@",
    calls="@toolpair@",
    chat="@plain@",
    json_object="@plain@",
    json_schema="@plain@",
    image="@plain@",
    long="@plain@",
)

PARIS = 'get_weather({"city": "Paris"})'

# What depends on the machine.
TIMED = {"streaming", "first token", "speed"}

# The finding, its value, the beginning of its evidence; the name of the recording that shows the same.
MLX_LM = [
    ("models", "listed", "1: /"),  # models-with-cache
    ("[DONE]", "sent", "finish reason length"),  # length
    ("usage", "sent", "prompt 26, completion 64, total 90"),  # usage
    ("usage unasked", "not sent", ""),
    ("reasoning", "reasoning", "10 characters: 'I count.'"),  # reasoning
    ("effort", "ignored", "none: 10 characters of reasoning; low: 10 characters of reasoning"),
    ("tools auto", "honoured", PARIS),  # tool
    ("tools none", "ignored", PARIS),  # tool-choice-none
    ("tools required", "ignored", "no call: 'Hello, world!'"),  # tool-choice-required-no-call
    ("tools named", "ignored", "no call: 'Hello, world!'"),
    ("parallel calls", "yes", 'get_weather({"city": "Lima"}), get_weather({"city": "Kyiv"})'),
    ("json_object", "ignored", "'Hello, world!'"),  # response-format-json-object
    ("json_schema", "ignored", "'Hello, world!'"),  # response-format-json-schema-other-text
    ("images", "refused", "404 Only 'text' content type is supported."),  # image
    ("keep-alives", "progress", "20,000 characters: 11 comments"),  # keepalive
    ("overflow", "not reached", "20,000 characters answered"),  # prompt-over-max-positions
    (
        "bad parameter",  # temperature-string
        "refused",
        "temperature \"hot\": 400 temperature must be of type ('float', 'int') as {\"error\": string}",
    ),
    ("unknown model", "refused", "404 Cannot find an appropriate cached snapshot folder"),  # unknown-model
    ("repairs", "none", "over 17 requests"),
]

MLX_VLM = [
    ("models", "listed", "1: /"),  # models
    ("[DONE]", "sent", "finish reason length"),  # length
    ("usage", "sent", "prompt 32, completion 64, total 96"),  # usage
    ("usage unasked", "not sent", ""),  # usage-false
    ("reasoning", "reasoning_content", "10 characters; sent again as reasoning: 'I count.'"),  # reasoning
    # The effort reaches the template, which closes the reasoning; the script opens it once more all the same.
    ("effort", "ignored", "none: 10 characters of reasoning; low: 10 characters of reasoning"),
    ("tools auto", "honoured", PARIS),  # tool
    ("tools none", "as text", '\'<tool_call> {"name": "get_weather"'),  # reads no tool_choice of "none"
    ("tools required", "ignored", "no call: 'Hello, world!'"),  # tool-choice-required-no-call
    ("tools named", "ignored", "no call: 'Hello, world!'"),  # tool-choice-named: accepted
    ("parallel calls", "yes", 'get_weather({"city": "Lima"}), get_weather({"city": "Kyiv"})'),  # tool-pair
    # The build for CPUs cannot mask: response-format-json-object, response-format-json-schema.
    ("json_object", "failed", "an error in the stream: [metal_kernel] No Metal back-end."),
    ("json_schema", "failed", "an error in the stream: [metal_kernel] No Metal back-end."),
    # image: a token for each square of 32, and two around them.
    ("images", "accepted", "answered 'Hello, world!'; 39 prompt tokens with the picture, 33 without"),
    ("keep-alives", "none", ""),  # long-prompt
    (
        "overflow",  # prompt-over-max-positions
        "refused",
        '400 Protected conversation exceeds the available context budget. as {"detail": string}; 20,000 characters',
    ),
    ("bad parameter", "refused", 'temperature "hot": 422 Input should be a valid number'),  # temperature-string
    ("unknown model", "refused", "400 Failed to load model: Cannot find an appropriate"),  # unknown-model
    ("repairs", "none", "over 18 requests"),
]


def check(url: str, limits: svir.Timeout, expected: list[tuple[str, str, str]]) -> None:
    with svir.Client(url) as client:
        findings = {
            finding.name: finding for finding in probe.run(client, prompts=PROMPTS, timeout=limits, max_tokens=64)
        }
    steady = {name: finding for name, finding in findings.items() if name not in TIMED}
    # Pieces that come while this process waits for its turn on a busy machine come in bursts.
    assert findings["streaming"].value in ("piece by piece", "in bursts")
    assert findings["streaming"].evidence.startswith("64 pieces in ")
    assert findings["speed"].value.endswith(" tokens/s")
    assert [(name, finding.value) for name, finding in steady.items()] == [(name, value) for name, value, _ in expected]
    for name, _, evidence in expected:
        assert steady[name].evidence.startswith(evidence)


def test_what_a_probe_finds_of_mlx_lm_is_what_its_recordings_show(mlx_lm: str, limits: svir.Timeout) -> None:
    check(mlx_lm, limits, MLX_LM)


def test_what_a_probe_finds_of_mlx_vlm_is_what_its_recordings_show(mlx_vlm: str, limits: svir.Timeout) -> None:
    check(mlx_vlm, limits, MLX_VLM)

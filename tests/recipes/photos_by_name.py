"""Photos with a name before each, so that the answer can speak of them."""

from pathlib import Path

import svir

client = svir.Client()
parts: list[str | svir.Image] = []
for path in sorted(Path("photos").glob("*.jpg")):
    parts += [f"{path.name}:", svir.Image(path, fit=1568)]
sent = client.stream(
    svir.user(*parts, "Which of these shows a bridge?"),
    on_upload=lambda done, total: print(f"\r{done} of {total} bytes", end=""),
)
for text in sent.texts():
    print(text, end="", flush=True)

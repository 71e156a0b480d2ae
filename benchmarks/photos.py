"""Photos: pictures of a phone's camera made ready for a model and sent as one request.

Each has 12 megapixels and is turned, as a phone held upright turns it; what is sent has 1568 pixels on its longer side.
The scripts make each photo ready with Pillow and send all with the openai package: as most write it, and with the photo
scaled before it is turned, so that less of it is read. Memory is the peak above what the process held once a photo of a
few pixels was sent. The server throws everything away.
"""

from __future__ import annotations

import base64
import io
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import process
from .tables import Check, find, pivot, ratio

if TYPE_CHECKING:
    from .lab import Case, Job, Lab, Row

COUNTS = (1, 20, 100)
SIDES = (4000, 3000)
FIT = 1568
COLUMNS = {str(n): f"{n} × 12 megapixels" for n in COUNTS}

_SMALL = "small.jpeg"
_QUESTION = "Which of these shows a bridge?"
Send = Callable[[Sequence[Path]], object]


def _svir(base: str) -> Send:
    import svir

    client = svir.Client(base, model="small", api_key="none")
    return lambda paths: client.complete(svir.user(_QUESTION, *(svir.Image(path, fit=FIT) for path in paths)))


def _script(base: str, *, scaled_first: bool) -> Send:
    import openai
    from PIL import Image, ImageOps

    client: Any = openai.OpenAI(base_url=base, api_key="none", max_retries=0)

    def ready(path: Path) -> str:
        with Image.open(path) as photo:
            if scaled_first:
                photo.thumbnail((FIT, FIT))
            picture = ImageOps.exif_transpose(photo)
            picture.thumbnail((FIT, FIT))
        jpeg = io.BytesIO()
        picture.save(jpeg, "JPEG", quality=90)
        return base64.b64encode(jpeg.getvalue()).decode()

    def send(paths: Sequence[Path]) -> None:
        urls = [f"data:image/jpeg;base64,{ready(path)}" for path in paths]
        images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        messages = [{"role": "user", "content": [{"type": "text", "text": _QUESTION}, *images]}]
        for _ in client.chat.completions.create(model="small", messages=messages, stream=True):
            pass

    return send


ARMS: dict[str, Callable[[str], Send]] = {
    "svir": _svir,
    "Pillow, openai": lambda base: _script(base, scaled_first=False),
    "Pillow scaling first, openai": lambda base: _script(base, scaled_first=True),
}


def prepare(arm: str, url: str, /) -> None:
    process.bound_memory(0.8)


def job(arm: str, url: str, /, *, folder: str, photos: int) -> dict[str, float]:
    """Bytes of memory, and CPU seconds and seconds for each photo, of one request."""
    send = ARMS[arm](f"{url}/sink/v1")
    send([Path(folder, _SMALL)])
    paths = sorted(Path(folder).glob("*.jpg"))[:photos]
    held = process.reset_peak()
    cpu, wall = time.process_time(), time.perf_counter()
    send(paths)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"memory": max(0, process.peak() - held), "cpu": cpu / photos, "wall": wall / photos}


def measure(lab: Lab, /) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="svir-benchmarks-") as folder:
        _lay_out(Path(folder))

        def job_of(case: Case, arm: str) -> Job:
            return {"folder": folder, "photos": int(case[0])}

        columns, rounds = (("1",), 1) if lab.quick else (COLUMNS, 3)
        return lab.take_turns("photos", ARMS, [(column,) for column in columns], job_of, rounds=rounds, fresh=True)


def _lay_out(folder: Path) -> None:
    """One photo under a hundred names, with much in it that is no noise and some that is."""
    from PIL import Image, ImageFilter

    exif = Image.Exif()
    exif[0x0112] = 6
    shades = (Image.linear_gradient("L").resize(SIDES), Image.radial_gradient("L").resize(SIDES))
    noise = Image.effect_noise(SIDES, 60).filter(ImageFilter.GaussianBlur(2))
    photo = Image.merge("RGB", (shades[0], noise, shades[1]))
    photo.save(folder / "000.jpg", quality=95, exif=exif)
    photo.resize((8, 6)).save(folder / _SMALL, "JPEG")
    for n in range(1, max(COUNTS)):
        os.link(folder / "000.jpg", folder / f"{n:03}.jpg")


def told(rows: list[Row], /) -> str:
    tables = (
        ("peak memory above the start, MiB", pivot(rows, "memory", 2**-20, COLUMNS, digits=0)),
        ("CPU milliseconds for each photo", pivot(rows, "cpu", 1e3, COLUMNS, digits=0)),
    )
    return "\n\n".join(f"{words}\n\n{shown}" for words, shown in tables)


def checks(rows: list[Row], /) -> list[Check]:
    found = []
    for column, name in COLUMNS.items():
        case = (column,)
        if (row := find(rows, case, "svir")) is None:
            continue
        found.append(Check(f"{name}: share of 48 MiB", row.high("memory") / (48 * 2**20), 1.0))
        found.append(
            Check(f"{name}: CPU to Pillow and openai", ratio(rows, case, "svir", "Pillow, openai", "cpu"), 1.0)
        )
    return found

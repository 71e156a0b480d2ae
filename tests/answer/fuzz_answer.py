"""Coverage-guided fuzzing of the answer arm: `python tests/answer/fuzz_answer.py -max_total_time=60`.

It takes libFuzzer's options. It begins with the recorded answers, tries what they lead to, and ends at the first bytes
that break a property, with the case that they stand for, a traceback, and the name of a file that holds them; given
that file's name it tries them alone. Needs the dependency group `fuzz`.

Half of the time libFuzzer changes bytes as it likes, which mostly breaks the JSON; else one value of one payload is
replaced by an odd one.
"""

import os
import random
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import atheris

with atheris.instrument_imports(include=["svir"]):
    import svir.answer.calls
    import svir.answer.models

sys.path.append(str(Path(__file__).parent.parent / "support"))

import bodies
import properties


def dictionary() -> str:
    """The words of the protocol in libFuzzer's form."""
    words = (*bodies.PIECES, *(b'"%b":' % name.encode() for name in bodies.FIELDS))
    escaped = ("".join(map(r"\x{:02x}".format, word)) for word in words)
    return "".join(f'"{word}"\n' for word in escaped)


def mutate(data: bytes, most: int, seed: int) -> bytes:
    chance = random.Random(seed)
    case = bodies.odd(bodies.case_of(data), chance) if chance.random() < 0.5 else None
    return atheris.Mutate(data, most) if case is None else bodies.bytes_of(case)[:most]


def fuzz(folder: Path, arguments: list[str]) -> None:
    """Never returns: libFuzzer ends the process."""
    words, corpus = folder / "words", folder / "corpus"
    words.write_text(dictionary())
    corpus.mkdir()
    for number, case in enumerate(bodies.recorded_cases()):
        (corpus / f"{number}").write_bytes(bodies.bytes_of(case))
    # Made-up call ids are equal, so that two runs can be compared.
    svir.answer.calls.uuid4 = lambda: SimpleNamespace(hex="0" * 32)  # type: ignore[assignment]
    alone = any(map(os.path.isfile, arguments))
    options = [f"-dict={words}", f"-max_len={2 * bodies.LONGEST}", "-timeout=10"]
    atheris.Setup([sys.argv[0], *options, *arguments, *([] if alone else [str(corpus)])], hold, custom_mutator=mutate)
    atheris.Fuzz()


def hold(data: bytes) -> None:
    case = bodies.case_of(data)
    try:
        properties.assert_holds(case)
    except BaseException:
        print(f"\nbroken by {case!r}", flush=True)
        raise


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        if (child := os.fork()) == 0:
            fuzz(Path(folder), sys.argv[1:])
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main())

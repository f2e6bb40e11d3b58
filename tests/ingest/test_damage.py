"""Files with flipped, cut and swapped bytes: a text or a typed refusal, never anything else."""

import random
from contextlib import suppress

import pytest

from common.errors import LecternError
from ingest.extract import extract
from ingest.inspect import inspect
from ingest.limits import Limits
from tests.ingest import samples
from tests.ingest.conftest import Put


def damaged(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        out[rng.randrange(len(out))] = rng.randrange(256)
    if rng.random() < 0.3:
        del out[rng.randrange(len(out)) :]
    if rng.random() < 0.3:
        at = rng.randrange(len(out) + 1)
        out[at:at] = rng.randbytes(rng.randint(1, 40))
    return bytes(out)


@pytest.mark.filterwarnings("ignore")  # parsers may warn about what they find
@pytest.mark.parametrize("kind", samples.SAMPLES)
def test_damaged_files_give_text_or_a_typed_refusal(kind: str, put: Put) -> None:
    filename, make = samples.SAMPLES[kind]
    data, rng = make(), random.Random(20)
    outcomes = set()
    for _ in range(40):
        path = put(damaged(data, rng))
        outcome = "read"
        try:
            found = inspect(path, filename, Limits())
            extract(path, found.name, Limits())
        except LecternError as error:
            outcome = error.code
        outcomes.add(outcome)
    assert "internal_error" not in outcomes


def test_bytes_of_any_kind_under_any_name(put: Put) -> None:
    rng = random.Random(21)
    for _ in range(60):
        path = put(rng.randbytes(rng.randint(1, 300)))
        with suppress(LecternError):
            inspect(
                path, rng.choice(["a.txt", "a.pdf", "a", "..", "a.docx", "\x00.html"]), Limits()
            )

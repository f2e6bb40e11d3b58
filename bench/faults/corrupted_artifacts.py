"""Artifacts damaged on the disk in many ways: what is answered from them, and what becomes of them.

python -m bench.faults.corrupted_artifacts
"""

import os
import random
import shutil
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.faults.place import (
    QUESTION,
    Place,
    answer,
    place,
    read_all,
    small_model,
    text_with_code,
)
from bench.faults.program import program
from bench.faults.server import Caller
from training.record import Weights, circumstances

NUM_BYTES = 600
# Room for the cache of one document in memory, and not for two.
RESIDENT = {"LECTERN_SERVER__RESIDENT_CACHE_BYTES": "250000"}
FOLDER = """SELECT folder FROM artifacts WHERE document_id = ?"""


def measure(options: Namespace) -> dict[str, Any]:
    """Run the program with a small model, unless another one is named."""
    with small_model(options.model) as (model, weights):
        return _measure(options, model, weights)


def _measure(options: Namespace, model: str, weights: Weights) -> dict[str, Any]:
    """Damage the artifact of every document, ask about each, wait, ask again; and so on.

    The server's memory holds one document, so that every question loads the artifact.
    """
    num_documents, rounds = (6, 2) if options.smoke else (40, 25)
    chance = random.Random(0)
    texts = {number: text_with_code(number + 1, NUM_BYTES) for number in range(num_documents)}
    at_once, damages = Counter[str](), Counter[str]()
    wrong = lost = 0
    with place(model, settings=RESIDENT) as at:
        at.start("serve")
        at.wait_until_ready()
        caller = at.caller()
        ids = read_all(caller, texts)
        expected = {number: answer(caller, document_id) for number, document_id in ids.items()}
        if None in expected.values():
            raise RuntimeError("Not every document was answered before any damage.")
        for _ in range(rounds):
            folders = [_folder(at, document_id) for document_id in ids.values()]
            for folder in folders:
                damages[_damage(folder, chance, folders)] += 1
            for number, document_id in ids.items():
                kind, text = _ask(caller, document_id)
                at_once[kind] += 1
                wrong += text is not None and text != expected[number]
            for number, document_id in ids.items():
                text = _answer_in_the_end(caller, document_id)
                lost += text is None
                wrong += text is not None and text != expected[number]
    return {
        "benchmark": "corrupted artifacts",
        **circumstances("cpu", weights),
        "artifacts": sum(damages.values()),
        "damages": dict(sorted(damages.items())),
        "documents": num_documents,
        "different_answers": len(set(expected.values())),
        "answers_at_once": dict(sorted(at_once.items())),
        "wrong": wrong,
        "lost": lost,
    }


def _ask(caller: Caller, document_id: str) -> tuple[str, str | None]:
    reply = caller.ask(document_id, QUESTION)
    if reply.status == 200:
        return "200", str(reply.json()["answer"])
    return f"{reply.status} {reply.json()['error']['code']}", None


def _answer_in_the_end(caller: Caller, document_id: str) -> str | None:
    """Ask once more where damage is found only now, as the document was in memory before."""
    for _ in range(2):
        caller.wait_until_read(document_id)
        text = answer(caller, document_id)
        if text is not None:
            return text
    return None


def _folder(at: Place, document_id: str) -> Path:
    """Return the folder of a document's artifact."""
    ((name,),) = at.query(FOLDER, document_id.replace("-", ""))
    return at.data / "artifacts" / str(name)


def _damage(folder: Path, chance: random.Random, others: list[Path]) -> str:
    """Do something to an artifact. Returns: what."""
    name = chance.choice(list(DAMAGES))
    file = chance.choice([path for path in sorted(folder.iterdir()) if path.is_file()])
    DAMAGES[name](file, chance, chance.choice([one for one in others if one != folder]))
    return name


def _flip_bit(file: Path, chance: random.Random, _: Path) -> None:
    data = bytearray(file.read_bytes() or b"\0")
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def _zero_part(file: Path, chance: random.Random, _: Path) -> None:
    data = bytearray(file.read_bytes())
    start = chance.randrange(len(data) or 1)
    data[start : start + 512] = b"\xff" * len(data[start : start + 512])
    file.write_bytes(data)


def _truncate(file: Path, chance: random.Random, _: Path) -> None:
    os.truncate(file, chance.randrange(file.stat().st_size or 1))


def _append(file: Path, chance: random.Random, _: Path) -> None:
    with file.open("ab") as opened:
        opened.write(chance.randbytes(chance.randint(1, 100)))


def _remove(file: Path, _: random.Random, __: Path) -> None:
    file.unlink()


def _remove_all(file: Path, _: random.Random, __: Path) -> None:
    shutil.rmtree(file.parent)


def _take_anothers(file: Path, _: random.Random, other: Path) -> None:
    """Put the file of another document in its place, or one of its own name that is damaged."""
    theirs = other / file.name
    if theirs.is_file() and not theirs.is_symlink():
        shutil.copyfile(theirs, file)
    else:
        file.write_bytes(b"")


def _take_all_of_anothers(file: Path, _: random.Random, other: Path) -> None:
    """Put the files of another document's artifact, as far as it has any, in the place of these."""
    shutil.rmtree(file.parent)
    theirs = [path for path in other.glob("*") if path.is_file() and not path.is_symlink()]
    file.parent.mkdir()
    for path in theirs:
        shutil.copyfile(path, file.parent / path.name)


def _link_to_no_end(file: Path, _: random.Random, __: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def _make_pipe(file: Path, _: random.Random, __: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _make_folder(file: Path, _: random.Random, __: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: Mapping[str, Callable[[Path, random.Random, Path], None]] = {
    "bit flipped": _flip_bit,
    "part overwritten": _zero_part,
    "truncated": _truncate,
    "lengthened": _append,
    "file removed": _remove,
    "folder removed": _remove_all,
    "file of another document": _take_anothers,
    "artifact of another document": _take_all_of_anothers,
    "link to /dev/zero": _link_to_no_end,
    "pipe": _make_pipe,
    "folder for a file": _make_folder,
}

main = program("faults_corrupted_artifacts", __doc__, measure)

if __name__ == "__main__":
    main()

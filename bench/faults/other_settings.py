"""A server started with another seed, plan or model, and then as before: what still answers.

python -m bench.faults.other_settings
"""

import shutil
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.torch import load_file, save_file

from bench.faults.place import QUESTION, Place, answer, place, read_all, text_with_code
from bench.faults.program import program
from bench.faults.server import Caller, weights_of
from reader import WEIGHTS
from training.record import circumstances

NUM_BYTES = 1_500
QUICK = {"LECTERN_PRECOMPUTE__NUM_PROBES": "8"}  # reads documents in a third of the time
JOBS = "SELECT count(*) FROM jobs"


def measure(options: Namespace) -> dict[str, Any]:
    """Read documents; start otherwise, and ask one of them; start as before, and ask all."""
    num_documents = 3 if options.smoke else 6
    texts = {number: text_with_code(number + 1, NUM_BYTES) for number in range(num_documents)}
    served = options.model or str(WEIGHTS)
    with place(served, settings=QUICK) as at, _another_model(served) as model:
        changes = {
            "seed": {"LECTERN_PRECOMPUTE__SEED": "7"},
            "plan": {"LECTERN_HEADS": "all"},
            "model": {"LECTERN_MODEL": str(model), "LECTERN_HEADS": "all"},  # no plan is of it
        }
        with _served(at) as caller:
            ids = read_all(caller, texts)
            before = {number: answer(caller, one) for number, one in ids.items()}
        rounds = {name: _round(at, ids, before, change) for name, change in changes.items()}
    return {
        "benchmark": "a start with other settings, and back",
        **circumstances("cpu", weights_of(options.model)),
        "documents": num_documents,
        "different_answers": len(set(before.values())),
        "changes": rounds,
        "still_answered_share": min(one["still_answered"] for one in rounds.values())
        / num_documents,
        "read_unasked": sum(
            one["read_at_start"] + one["read_on_the_way_back"] for one in rounds.values()
        ),
    }


def _round(
    at: Place, ids: dict[int, str], before: dict[int, str | None], change: dict[str, str]
) -> dict[str, Any]:
    jobs = at.query(JOBS)[0][0]
    with _served(at, **change) as caller:
        first = next(iter(ids.values()))
        read_at_start = at.query(JOBS)[0][0] - jobs
        reply = caller.ask(first, QUESTION)
        asked = f"{reply.status} {reply.json()['error']['code']}" if reply.status != 200 else "200"
        caller.wait_until_read(first)
        read_anew = answer(caller, first) is not None
        read_for_question = at.query(JOBS)[0][0] - jobs - read_at_start
    jobs = at.query(JOBS)[0][0]
    with _served(at) as caller:
        still = sum(answer(caller, one) == before[number] for number, one in ids.items())
    return {
        "read_at_start": read_at_start,
        "asked": asked,
        "read_anew_when_asked": read_anew,
        "read_for_question": read_for_question,
        "still_answered": still,
        "read_on_the_way_back": at.query(JOBS)[0][0] - jobs,
    }


@contextmanager
def _served(at: Place, **change: str) -> Iterator[Caller]:
    """Run a server, stopped by SIGTERM after the block."""
    server = at.start("serve", **change)
    at.wait_until_ready()
    try:
        yield at.caller()
    finally:
        at.stop(server)


@contextmanager
def _another_model(model: str) -> Iterator[Path]:
    """Copy a model and change one of its weights a little."""
    with TemporaryDirectory(prefix="lectern-model-") as name:
        folder = Path(name) / "model"
        shutil.copytree(model, folder)
        file = min(folder.glob("*.safetensors"))
        weights = load_file(file)
        some = min(weights)
        weights[some] = weights[some] * 1.01
        save_file(weights, file, {"format": "pt"})
        yield folder


main = program("faults_other_settings", __doc__, measure)

if __name__ == "__main__":
    main()

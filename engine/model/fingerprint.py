"""Fingerprints: two things with the same one are interchangeable."""

import hashlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

# What changes a model's keys, values or tokens; generation settings do not.
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
BLOCK = 1 << 22
HASHING_THREADS = 4


def digest(fields: Mapping[str, Any]) -> str:
    """SHA-256 of JSON-like fields, independent of their order."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, read in blocks."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            state.update(block)
    return state.hexdigest()


def weights_fingerprint(folder: Path, remembered: Path | None = None) -> str:
    """Identify a model folder: configuration, tokenizer and weights, in whatever dtype they run.

    Files are hashed beside each other.

    Args:
        remembered: a file of digests from before; one counts while its file has the same size,
            times and inode. What is hashed is remembered there. None to hash all.
    Returns: a SHA-256 in hexadecimal, the same for equal files.
    """
    names = [name for name in FILES if (folder / name).is_file()]
    names += sorted(path.name for path in folder.glob("*.safetensors"))
    known = {} if remembered is None else _read_remembered(remembered)

    def find(name: str) -> dict[str, Any]:
        path = folder / name
        state = _state_of(path)
        found: dict[str, Any] | None = known.get(str(path.resolve()))
        if found is not None and found.get("state") == state:
            return found
        return {"state": state, "sha256": file_digest(path)}

    with ThreadPoolExecutor(HASHING_THREADS, "hash") as threads:
        found = dict(zip(names, threads.map(find, names), strict=True))
    if remembered is not None:
        known |= {str((folder / name).resolve()): one for name, one in found.items()}
        _write_remembered(remembered, known)
    return digest({name: one["sha256"] for name, one in found.items()})


def _state_of(path: Path) -> list[int]:
    """What changes when a file is written to or replaced."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev]


def _read_remembered(file: Path) -> dict[str, Any]:
    """Read what is remembered; nothing if the file is missing or damaged."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_remembered(file: Path, digests: Mapping[str, Any]) -> None:
    """Write what is to be remembered, at once or not at all; a start does not fail for it."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        draft.write_text(json.dumps(digests), encoding="utf-8")
        draft.replace(file)


def model_fingerprint(weights: str, dtype: str, revision: str = "") -> str:
    """Identify a model as it runs: what `weights_fingerprint` says, and the dtype.

    Args:
        revision: the commit of a model from a hub; "" for a folder.
    """
    fields = {"dtype": dtype, "weights": weights}
    return digest(fields | {"revision": revision} if revision else fields)

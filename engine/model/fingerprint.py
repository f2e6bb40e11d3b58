"""Fingerprints: two things with the same one are interchangeable."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What changes a model's keys, values or tokens; generation settings do not.
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
BLOCK = 1 << 22


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


def weights_fingerprint(folder: Path) -> str:
    """Identify a model folder: configuration, tokenizer and weights, in whatever dtype they run.

    Returns: a SHA-256 in hexadecimal, the same for equal files.
    """
    names = [name for name in FILES if (folder / name).is_file()]
    names += sorted(path.name for path in folder.glob("*.safetensors"))
    return digest({name: file_digest(folder / name) for name in names})


def model_fingerprint(weights: str, dtype: str, revision: str = "") -> str:
    """Identify a model as it runs: what `weights_fingerprint` says, and the dtype.

    Args:
        revision: the commit of a model from a hub; "" for a folder.
    """
    fields = {"dtype": dtype, "weights": weights}
    return digest(fields | {"revision": revision} if revision else fields)

"""Fingerprints."""

from pathlib import Path

import pytest

from engine.model.fingerprint import digest, file_digest, model_fingerprint, weights_fingerprint


def test_fields_in_another_order_are_the_same() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": "1"}) != digest({"b": "1"})


def test_a_files_digest_is_that_of_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    assert file_digest(file).startswith("ba7816bf8f01cfea")  # SHA-256 of "abc"


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("config.json", True),
        ("tokenizer.json", True),
        ("chat_template.jinja", True),
        ("model-00002.safetensors", True),
        ("generation_config.json", False),
        ("README.md", False),
    ],
)
def test_a_model_is_what_changes_its_caches(tmp_path: Path, name: str, counts: bool) -> None:
    (tmp_path / "model-00001.safetensors").write_bytes(b"weights")
    before = weights_fingerprint(tmp_path)
    (tmp_path / name).write_bytes(b"new")
    assert (weights_fingerprint(tmp_path) != before) is counts


def test_a_model_in_another_dtype_is_another_one() -> None:
    assert model_fingerprint("weights", "float32") != model_fingerprint("weights", "bfloat16")
    assert model_fingerprint("weights", "float32") != model_fingerprint("others", "float32")

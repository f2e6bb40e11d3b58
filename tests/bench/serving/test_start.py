"""The program that times starts of a server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.serving import start


def test_the_first_start_is_told_apart_and_all_share_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, str]] = []

    @contextmanager
    def serving(model: str, **settings: str) -> Iterator[SimpleNamespace]:
        given.append({"model": model, **settings})
        number = len(given)
        (tmp_path / "server.log").write_text(
            f"[info     ] model loaded                   duration_ms={1000 * number}.5\n"
            f"[info     ] the engine was prepared in {number}.0 s\n"
        )
        yield SimpleNamespace(folder=tmp_path)

    clock = iter([0.0, 9.0, 20.0, 22.0, 30.0, 33.0])
    monkeypatch.setattr(start, "serving", serving)
    monkeypatch.setattr(start.time, "monotonic", lambda: next(clock))
    setting = ["--setting", "LECTERN_DECODING__COMPILED_LAYERS=false"]
    start.main(
        [
            "--model",
            "folder",
            "--drawn",
            "tiny",
            "--starts",
            "3",
            *setting,
            "--out",
            str(tmp_path / "out"),
        ]
    )
    (file,) = (tmp_path / "out").iterdir()
    result = json.loads(file.read_text())
    assert result["first_s"] == 9.0
    assert result["later_s"]["p50"] == 2.5
    assert result["later_model_loaded_s"]["p50"] == 2.5005
    assert result["later_engine_prepared_s"]["p50"] == 2.5
    assert given[0] == given[1] == given[2]
    assert given[0]["model"] == "folder"
    assert given[0]["LECTERN_DECODING__COMPILED_LAYERS"] == "false"
    assert {"LECTERN_DATA_DIR", *start.CACHES} <= set(given[0])

"""`lectern bench reader`, with an untrained reader: the way, not the figures."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.reader.material import write_data, write_weights

Run = Callable[..., tuple[int, str, str]]


def test_the_table_is_printed_and_written(lectern: Run, tmp_path: Path) -> None:
    for name in ("data", "weights"):
        (tmp_path / name).mkdir()
    data, weights = write_data(tmp_path / "data"), write_weights(tmp_path / "weights")
    out = tmp_path / "new" / "reader.json"
    code, printed, _ = lectern(
        "bench", "reader", "--data", str(data), "--weights", str(weights), "--out", str(out),
        "--cell", "SQuAD, paragraph alone", "--questions", "8", "--device", "cpu",
    )  # fmt: skip
    assert code == 0
    rows = json.loads(out.read_text())["cells"]
    assert list(rows) == ["SQuAD, paragraph alone"]
    line = next(line for line in printed.splitlines() if "SQuAD" in line)
    assert [part.strip() for part in line.strip("│").split("│")][:4] == [
        "SQuAD, paragraph alone", "own", "8", "0.000 [0.000, 0.324]",
    ]  # fmt: skip


def test_a_folder_without_books_is_a_plain_sentence(lectern: Run, tmp_path: Path) -> None:
    code, _, err = lectern("bench", "reader", "--data", str(tmp_path), "--device", "cpu")
    assert code == 1
    assert err.startswith(f"Error: '{tmp_path}' lacks squad/")
    assert "model card" in err

"""`lectern doctor`: checks of the set-up, and what a configuration says about a model."""

import json
import re
import shutil
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from transformers import LlamaConfig

from app.config import ServerConfig
from cli.doctor import Check, check_assets, check_setup
from cli.model_report import families_table, report_on
from cli.settings import Settings
from common.errors import Permanent
from engine.document.cache_bytes import CacheBytes
from engine.model.head_plan import HeadPlan, write_plan
from reader import WEIGHTS
from storage.storage import open_existing, open_storage
from tests.cli.test_commands import Lectern
from tests.models import FAMILIES, byte_tokenizer, sizes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder without its weights."""
    path = tmp_path / "tiny-llama"
    FAMILIES["llama"].save_pretrained(path)
    byte_tokenizer().save_pretrained(path)
    return path


def settings_for(tmp_path: Path, **more: object) -> Settings:
    return Settings(data_dir=tmp_path / "data", **more)  # type: ignore[arg-type]


def test_the_readmes_table_of_families_is_what_doctor_says() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- families -->\n(.*?)\n<!-- /families -->", readme, re.DOTALL)
    assert found is not None
    assert found[1] == families_table(ROOT / "docs" / "families")


def test_a_model_is_described_without_its_weights(folder: Path, tmp_path: Path) -> None:
    report = report_on(settings_for(tmp_path, device="cpu"), str(folder))
    assert (report.name, report.kind, report.refusal) == ("tiny-llama", "llama", None)
    assert (report.context_length, report.layers) == (4096, "2 x 2 of 16")
    assert (report.device, report.dtype) == ("cpu", "float32")
    assert report.paths is not None
    assert report.cache is not None
    assert report.paths.without_kernels is report.paths.without_graph is None
    # keys and values of two heads in two layers, 6 % centroids beside them, places and ids
    assert report.cache.per_token == pytest.approx(2 * 2 * (2 + 0.06) * 16 * 4 + 32, rel=0.01)
    assert report.cache_with_plan is None
    rooms = dict(report.rooms)
    assert list(rooms) == ["host memory", "disk"]
    assert min(rooms.values()) > 1_000_000
    config = ServerConfig(device_cache_bytes=10_000, host_cache_bytes=20_000)
    settings = settings_for(tmp_path, device="cpu", server=config)
    limited = dict(report_on(settings, str(folder)).rooms)
    assert 0 < limited["host memory"] < limited["more host memory"] < 200
    assert any("A head plan" in hint for hint in report.hints)
    assert json.loads(json.dumps(report.as_json()))["context_length"] == 4096


def test_a_head_plan_counts(folder: Path, tmp_path: Path) -> None:
    write_plan(HeadPlan("file", ((True, False), (False, False))), folder / "head_plan.json")
    report = report_on(settings_for(tmp_path, device="cpu"), str(folder))
    assert report.cache is not None
    assert report.cache_with_plan is not None
    ratio = report.cache_with_plan.per_token / report.cache.per_token
    assert ratio == pytest.approx(1 / 4, abs=0.03)
    assert report.cache_with_plan.constant > 0
    assert not any("A head plan" in hint for hint in report.hints)


def test_tokens_that_fit_are_those_beside_what_is_constant() -> None:
    assert CacheBytes(100.0, 1000.0).tokens_in(5000) == 40
    assert CacheBytes(100.0, 1000.0).tokens_in(500) == 0
    assert CacheBytes(0.0, 1000.0).tokens_in(500) == 0


def test_the_command_says_why_a_model_is_not_served(
    lectern: Lectern, folder: Path, tmp_path: Path
) -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    config = LlamaConfig(**sizes(rope_parameters=rope))
    config.save_pretrained(folder)
    code, out, error = lectern("doctor", "--model", str(folder), "--data-dir", str(tmp_path / "d"))
    assert code == 1
    assert "not served: The model's RoPE is of kind 'dynamic'" in out
    assert "Not everything is sound" in error
    assert not (tmp_path / "d").exists()


def test_a_missing_chat_template_is_seen_before_weights_are_fetched(
    lectern: Lectern, folder: Path
) -> None:
    (folder / "chat_template.jinja").unlink()
    code, out, _ = lectern("doctor", "--model", str(folder))
    assert code == 1
    assert "LECTERN_PROMPT__FORMAT=plain" in out


def test_the_command_prints_json(lectern: Lectern, folder: Path, tmp_path: Path) -> None:
    given = ("doctor", "--json", "--model", str(folder), "--data-dir", str(tmp_path / "d"))
    code, out, _ = lectern(*given)
    body = json.loads(out)
    assert code == 0
    assert body["model"]["layers"] == "2 x 2 of 16"
    assert {check["what"] for check in body["checks"]} >= {"torch", "data folder", "database"}


def test_without_a_model_the_set_up_alone_is_checked(lectern: Lectern, tmp_path: Path) -> None:
    code, out, _ = lectern("doctor", "--data-dir", str(tmp_path / "d"))
    assert code == 0
    assert "data folder" in out
    assert "attention" not in out
    assert not (tmp_path / "d").exists(), "it changes nothing"


def test_the_bundled_reader_is_served(tmp_path: Path) -> None:
    report = report_on(settings_for(tmp_path), str(WEIGHTS))
    assert report.refusal is None
    assert report.cache_with_plan is not None


def test_the_pages_files_are_those_that_were_released(tmp_path: Path) -> None:
    assert check_assets(ROOT / "app").is_sound
    shutil.copytree(ROOT / "app", tmp_path / "app", ignore=shutil.ignore_patterns("*.py"))
    changed = next((tmp_path / "app").rglob("htmx.min.js"))
    changed.write_text("alert(1)")
    found = check_assets(tmp_path / "app")
    assert not found.is_sound
    assert "htmx.min.js" in found.found
    assert not check_assets(tmp_path / "nothing").is_sound


def test_a_database_is_told_by_its_version(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)

    def told() -> Check:
        return {check.what: check for check in check_setup(settings)}["database"]

    assert "which the first start makes" in told().found
    open_storage(settings.storage()).close()
    assert "up to date" in told().found
    with closing(sqlite3.connect(tmp_path / "data" / "lectern.sqlite3")) as database:
        database.execute("UPDATE alembic_version SET version_num = '0001'")
        database.commit()
        assert "brings them up to date" in told().found
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    assert not told().is_sound
    with pytest.raises(Permanent, match="another version"):
        open_existing(settings.storage())


def test_a_full_disk_is_not_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil._ntuple_diskusage(1 << 40, (1 << 40) - 1000, 1000)  # type: ignore[attr-defined]
    monkeypatch.setattr("shutil.disk_usage", lambda _: full)
    checks = {check.what: check for check in check_setup(settings_for(tmp_path))}
    assert not checks["disk"].is_sound
    assert "1.0 TiB" in checks["disk"].found


def test_what_keeps_a_server_from_running_is_not_sound(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "lectern.sqlite3").write_bytes(b"this is no database" * 100)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = settings_for(
            tmp_path,
            redis_url="redis://127.0.0.1:9",
            server={"port": taken.getsockname()[1]},
        )
        checks = {check.what: check for check in check_setup(settings)}
    assert not checks["redis"].is_sound
    assert not checks["database"].is_sound
    assert "taken" in checks["port"].found
    (tmp_path / "file").write_text("")
    blocked = {one.what: one for one in check_setup(Settings(data_dir=tmp_path / "file" / "data"))}
    assert not blocked["data folder"].is_sound

"""Settings, from the environment or in code."""

import os
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from app.config import ServerConfig
from cli.options import unknown_variables
from cli.settings import Settings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("LECTERN_"):
            monkeypatch.delenv(name)


def test_it_runs_without_any_setting() -> None:
    settings = Settings()
    assert settings.server.host == "127.0.0.1"
    assert settings.database_url is None
    assert settings.server.embedded_worker is True


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTERN_MODEL", "some/model")
    monkeypatch.setenv("LECTERN_SERVER__PORT", "9000")
    monkeypatch.setenv("LECTERN_SERVER__EMBEDDED_WORKER", "false")
    monkeypatch.setenv("LECTERN_PRECOMPUTE__LEVEL2_RATIO", "0.1")
    settings = Settings()
    assert settings.model == "some/model"
    assert (settings.server.port, settings.server.embedded_worker) == (9000, False)
    assert settings.precompute.level2_ratio == 0.1
    assert settings.server.host == ServerConfig().host


def test_what_is_given_in_code_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTERN_MODEL", "from/environment")
    assert Settings(model="from/code").model == "from/code"


@pytest.mark.parametrize("name", ["LECTERN_SERVER__PROT", "LECTERN_PRECOMPUTE__SINKS"])
def test_an_unknown_setting_of_a_group_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "5")
    with pytest.raises(ValidationError, match="Unexpected keyword"):
        Settings()


def test_an_unknown_setting_in_code_is_refused() -> None:
    with pytest.raises(ValidationError, match="not permitted"):
        Settings(modell="typo")  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="Unexpected keyword"):
        Settings(precompute={"sinks": 4})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LECTERN_SERVER__PORT", "70000"),
        ("LECTERN_SERVER__PORT", "many"),
        ("LECTERN_SERVER__CONCURRENT_QUESTIONS", "0"),
        ("LECTERN_WORKER__LEASE_S", "-1"),
        ("LECTERN_PRECOMPUTE__LEVEL2_RATIO", "1.5"),
        ("LECTERN_PRECOMPUTE__NUM_PROBES", "0"),
        ("LECTERN_PRECOMPUTE__DTYPE", "int8"),
        ("LECTERN_DEVICE", "tpu"),
    ],
)
def test_values_out_of_range_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError, match=name.rpartition("_")[2].lower()):
        Settings()


def test_settings_do_not_change_once_made() -> None:
    settings = Settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.model = "other"
    with pytest.raises(FrozenInstanceError):
        settings.server.port = 1


def test_secrets_are_not_shown() -> None:
    settings = Settings(
        database_url=SecretStr("postgresql+psycopg://u:hunter2@host/db"),
        redis_url=SecretStr("redis://:hunter2@host"),
    )
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in repr(settings.storage())
    assert settings.storage().sql_url() == "postgresql+psycopg://u:hunter2@host/db"


def test_without_a_database_sqlite_lies_in_the_data_folder(tmp_path: Path) -> None:
    assert (
        Settings(data_dir=tmp_path).storage().sql_url() == f"sqlite:///{tmp_path}/lectern.sqlite3"
    )


def test_an_earlier_name_of_a_setting_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTERN_PRECOMPUTE__HEADS", "all")
    monkeypatch.setenv("LECTERN_DECODING__CAPTURED", "false")
    settings = Settings()
    assert settings.heads == "all"
    assert settings.decoding.triton_kernels is False
    monkeypatch.setenv("LECTERN_HEADS", "plan.json")
    assert Settings().heads == "plan.json", "the present name counts where both are set"


def test_hierarchical_lookup_is_set_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTERN_PRECOMPUTE__LOOKUP__LEVELS", "2")
    assert Settings().precompute.lookup.levels == 2


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"": '{"enable_thinking": true, "effort": "low", "n": 3}'},
         {"enable_thinking": True, "effort": "low", "n": 3}),
        ({"__ENABLE_THINKING": "false"}, {"enable_thinking": False}),
    ],
)  # fmt: skip
def test_arguments_of_the_chat_template_are_set_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: dict[str, object]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"LECTERN_PROMPT__TEMPLATE_ARGUMENTS{name}", value)
    assert unknown_variables(os.environ) == ()
    found = Settings().model_files().prompt.template_arguments
    assert found == wanted
    assert [type(value) for value in found.values()] == [type(value) for value in wanted.values()]


def test_arguments_that_are_no_json_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTERN_PROMPT__TEMPLATE_ARGUMENTS", "enable_thinking=true")
    with pytest.raises(ValidationError, match="TEMPLATE_ARGUMENTS is no JSON object"):
        Settings()


def test_the_plain_format_is_set_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTERN_PROMPT__FORMAT", "plain")
    assert Settings().model_files().prompt.format == "plain"

"""Settings as the commands read them."""

import re
from pathlib import Path

import pytest

from cli.options import InvalidSetting, not_none, read_settings, unknown_variables
from cli.settings import variables


def test_the_command_line_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTERN_SERVER__PORT", "9000")
    monkeypatch.setenv("LECTERN_SERVER__QUEUED_QUESTIONS", "7")
    settings = read_settings(server=not_none(port=9001, host=None))
    assert (settings.server.port, settings.server.queued_questions) == (9001, 7)
    assert settings.server.host == "127.0.0.1"


def test_a_wrong_value_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTERN_SERVER__PORT", "many")
    with pytest.raises(InvalidSetting, match="LECTERN_SERVER__PORT is wrong"):
        read_settings()


def test_a_wrong_value_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTERN_WORKER__LEASE_S", "secret-canary")
    with pytest.raises(InvalidSetting) as error:
        read_settings()
    assert "secret-canary" not in error.value.message


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LECTERN_MODLE", "LECTERN_MODEL"),
        ("LECTERN_REDIS", "LECTERN_REDIS_URL"),
        ("LECTERN_PORT", "LECTERN_SERVER__PORT"),
        ("lectern_data_dri", "LECTERN_DATA_DIR"),
    ],
)
def test_an_unknown_variable_is_warned_of_with_the_nearest_name(
    name: str,
    meant: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, "secret-canary")
    read_settings()
    out, err = capsys.readouterr()
    assert err == f"Warning: There is no setting {name}. Did you mean {meant}? It is ignored.\n"
    assert out == ""


def test_what_is_like_no_setting_is_only_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LECTERN_XYZZY", "1")
    read_settings()
    assert capsys.readouterr().err == "Warning: There is no setting LECTERN_XYZZY. It is ignored.\n"


def test_an_unknown_variable_of_a_group_is_refused_with_the_nearest_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LECTERN_SERVER__PROT", "9000")
    with pytest.raises(InvalidSetting, match="Did you mean LECTERN_SERVER__PORT"):
        read_settings()


def test_what_is_documented_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = Path("README.md").read_text()
    documented = re.findall(r"`(LECTERN_[A-Z0-9_]*[A-Z0-9])`", readme)
    assert len(documented) > 30
    assert unknown_variables(documented) == ()
    assert set(documented) - {"LECTERN_URL", "LECTERN_API_KEY"} <= set(variables())
    assert (
        unknown_variables(["LECTERN_TEST_REDIS_URL", "LECTERN_SERVER", "PATH", "lectern_model"])
        == ()
    )
    read_settings()
    assert capsys.readouterr().err == ""

"""Settings as the commands read them."""

import pytest

from cli.options import InvalidSetting, given, read_settings


def test_the_command_line_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTERN_SERVER__PORT", "9000")
    monkeypatch.setenv("LECTERN_SERVER__QUEUED_QUESTIONS", "7")
    settings = read_settings(server=given(port=9001, host=None))
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

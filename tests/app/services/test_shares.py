"""Places are shared between keys, and a refusal says when one will be free."""

from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from app.services.shares import UNMEASURED_S, Shares
from common.errors import Busy, TooManyRequests
from common.owner import Owner

ONE, TWO, THREE = (Owner("tenant", name) for name in ("one", "two", "three"))


def test_one_key_cannot_have_all_places() -> None:
    shares = Shares("streams", total=3, per_key=2)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(shares.place(ONE))
        with pytest.raises(TooManyRequests, match="2 streams") as refused, shares.place(ONE):
            pass
        assert refused.value.retry_after_s == UNMEASURED_S
        held.enter_context(shares.place(TWO))
        with pytest.raises(Busy, match="3 streams"), shares.place(THREE):
            pass
    assert shares.num_taken() == 0
    with shares.place(ONE):
        assert shares.num_taken() == 1


def test_one_tenant_with_many_keys_cannot_have_all_places() -> None:
    shares = Shares("streams", total=16, per_key=2)
    with ExitStack() as held:
        for number in range(15):
            held.enter_context(shares.place(Owner("tenant", number)))
        with pytest.raises(TooManyRequests, match="tenant has 15 streams"), shares.place(ONE):
            pass
        held.enter_context(shares.place(Owner("another", "key")))
    assert shares.num_taken() == 0


def test_a_place_is_given_back_after_an_error() -> None:
    shares = Shares("streams", total=1, per_key=1)
    with pytest.raises(ValueError, match="oops"), shares.place(ONE):
        raise ValueError("oops")
    assert shares.num_taken() == 0


def test_a_refusal_says_when_a_place_will_be_free(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("app.services.shares.time", clock)
    shares = Shares("uploads", total=9, per_key=2)
    for _ in range(50):
        with shares.place(ONE):
            now[0] += 30.0
    with shares.place(ONE), shares.place(ONE), pytest.raises(TooManyRequests) as refused:
        ExitStack().enter_context(shares.place(ONE))
    assert refused.value.retry_after_s == pytest.approx(15.0), "two places, each held for 30 s"

"""What is told of readings, also of those that were cut short."""

from bench.serving.reading import summarise


def reading(ready_s: float) -> dict[str, float]:
    return {"ready_s": ready_s, "processor_s": 2 * ready_s}


def test_a_round_that_was_cut_short_counts_as_far_as_it_came() -> None:
    rounds = [
        {"before": {"16": reading(4.0), "128": reading(9.0)},
         "now": {"16": reading(2.0), "128": reading(3.0), "beside": {"longest_wait_ms": 7.0}}},
        {"before": {"16": reading(2.0)}, "now": {"16": reading(1.0)}},
        {"before": {}},
    ]  # fmt: skip
    found = summarise(rounds, [16, 128, 512])
    assert found["16"]["ready_per_before"]["n"] == 2
    assert found["16"]["ready_per_before"]["p50"] == 0.5
    assert found["128"]["ready_s"]["p50"] == 3.0
    assert found["128"]["processor_time_per_before"]["p50"] == 3.0 / 9.0
    assert found["beside"] == {"longest_wait_ms": 7.0}
    assert "512" not in found

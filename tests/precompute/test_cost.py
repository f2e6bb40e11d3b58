"""What reading should take grows as the work does: with tokens, their square, and the model."""

from engine.model.head_plan import HeadPlan
from precompute.cost import CALIBRATION_S, expected_reading_s
from tests.models import FAMILIES, loaded, sizes

LONG = 1 << 20


def test_it_grows_with_the_square_of_a_long_document() -> None:
    model = loaded(FAMILIES["llama"])
    one, two = (expected_reading_s(model, tokens) for tokens in (LONG, 2 * LONG))
    assert 3.9 < two / one < 4.1


def test_a_document_of_one_line_takes_a_moment() -> None:
    assert 0 < expected_reading_s(loaded(FAMILIES["llama"]), 10) - CALIBRATION_S < 0.1


def test_streaming_heads_and_windows_take_less() -> None:
    everything = expected_reading_s(loaded(FAMILIES["llama"]), LONG)
    plan = HeadPlan("file", ((False, False), (False, False)), num_sinks=4, window=24)
    streaming = expected_reading_s(loaded(FAMILIES["llama"], plan=plan), LONG)
    windowed = expected_reading_s(loaded(FAMILIES["mistral-window"]), LONG)
    assert streaming < everything / 10
    assert windowed < everything / 10


def test_a_larger_model_takes_more() -> None:
    large = type(FAMILIES["llama"])(**sizes(num_hidden_layers=4))
    small_s, large_s = (
        expected_reading_s(loaded(config), LONG) for config in (FAMILIES["llama"], large)
    )
    assert 1.9 < large_s / small_s < 2.1

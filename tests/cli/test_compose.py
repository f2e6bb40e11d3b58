"""Settings become the configurations that the packages take."""

from common.settings import DecodingSettings
from engine.decode.graph_pool import DecodeConfig


def test_decoding_is_as_the_engine_has_it_unless_a_setting_says_otherwise() -> None:
    assert DecodeConfig(**DecodingSettings().model_dump()) == DecodeConfig()
    assert DecodeConfig().captured

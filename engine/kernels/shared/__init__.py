"""Operations and helpers that decoding, prefill and calibration share."""

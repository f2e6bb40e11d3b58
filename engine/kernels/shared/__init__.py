"""Kernels and references that decoding, prefill and calibration share."""

"""From tokens to a document cache: prefill, clustering, calibration; pure, no storage, no web."""

"""Attention of one question's prefill, whose document and sizes stand in tables on the device."""

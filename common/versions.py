"""Versions of everything that is written to disk, and what a new one means.

A change to a format raises its number here, adds a fixture of the old one (`tests/versions`), and
says below what becomes of older files.
"""

ARTIFACT_FORMAT = 2  # what a document's tensors mean: older artifacts are stale and are read again
MANIFEST_FORMAT = 1  # the manifest's own fields: older manifests are refused as damaged
HEAD_PLAN_FORMAT = 1  # a head plan's JSON: older plans are refused with a sentence

"""Versions of all formats that are written to the disk.

A change of a format increases its number here, adds a fixture of the old format to
`tests/versions`, and says below what happens to older files.
"""

ARTIFACT_FORMAT = 2  # of a document's tensors; documents with older artifacts are read again
MANIFEST_FORMAT = 1  # of the manifest's own fields; older manifests are refused as damaged
HEAD_PLAN_FORMAT = 1  # of a head plan's JSON; older plans are refused with an explanation

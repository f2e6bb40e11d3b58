"""Versions of all formats that are written to the disk.

A change of a format increases its number here, adds a fixture of the old format to
`tests/versions`, and says below what happens to older files.
"""

ARTIFACT_FORMAT = 2  # of a document's tensors; documents with older artifacts are read again
MANIFEST_FORMAT = 1  # of the manifest's own fields; older manifests are refused as damaged
# Of the text that is extracted from a file, which the manifest tells; 1 if it does not. Older text
# keeps its spans and is not extracted again, so that it is no part of an artifact's fingerprint. 2:
# lines joined to paragraphs, structure, boxes of words, no pages where a format has none.
TEXT_FORMAT = 2
HEAD_PLAN_FORMAT = 1  # of a head plan's JSON; older plans are refused with an explanation

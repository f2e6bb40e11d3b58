"""Markdown, kept as its source: headings, lists and tables read well as they are."""

from ingest.extract.txt import TxtExtractor
from ingest.limits import Limits


def build(_limits: Limits) -> TxtExtractor:
    """The plug-in's entry."""
    return TxtExtractor()

"""Markdown files, whose source stays as it is: its headings, lists and tables read well."""

from ingest.extract.txt import TxtExtractor
from ingest.limits import Limits


def build(_limits: Limits) -> TxtExtractor:
    """Make the extractor; this is the plug-in's entry point."""
    return TxtExtractor()

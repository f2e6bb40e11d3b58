"""What measures performance and accuracy, with its results; in no wheel."""

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

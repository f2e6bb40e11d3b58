"""What trains, evaluates and describes the bundled reader; in no wheel."""

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

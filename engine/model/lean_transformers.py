"""Importing transformers without what it imports for others."""

import importlib
from typing import Any

# Libraries that it imports, where they are installed, for assisted generation and the losses of
# object detection.
UNUSED = ("sklearn", "scipy")


def import_transformers() -> None:
    """Import what all models need of transformers, without libraries that nothing here needs it to.

    They take a second of each start. It changes nothing if transformers was imported before.

    Raises: ImportError if transformers is missing.
    """
    utils: Any = importlib.import_module("transformers.utils")
    names = [f"is_{library}_available" for library in UNUSED]
    found = {name: getattr(utils, name) for name in names}
    try:
        for name in names:
            setattr(utils, name, lambda: False)
        importlib.import_module("transformers.modeling_utils")
        importlib.import_module("transformers.generation.candidate_generator")
    finally:
        for name, is_available in found.items():
            setattr(utils, name, is_available)

"""Importing transformers without what it imports for others, and without warnings about that."""

import importlib
import logging
from typing import Any

# Libraries that it imports, where they are installed, for assisted generation and the losses of
# object detection.
UNUSED = ("sklearn", "scipy")
# Warns of types that torchao, where it is installed, registers with a torch that needs it no more.
NOISY_LOGGER = "torch.utils._pytree"


def import_transformers() -> None:
    """Import what all models need of transformers, without libraries that nothing here needs it to.

    They take a second of each start. It changes nothing if transformers was imported before.

    Raises: ImportError if transformers is missing.
    """
    utils: Any = importlib.import_module("transformers.utils")
    names = [f"is_{library}_available" for library in UNUSED]
    found = {name: getattr(utils, name) for name in names}
    noisy = logging.getLogger(NOISY_LOGGER)
    level = noisy.level
    try:
        noisy.setLevel(logging.ERROR)
        for name in names:
            setattr(utils, name, lambda: False)
        importlib.import_module("transformers.modeling_utils")
        importlib.import_module("transformers.generation.candidate_generator")
    finally:
        noisy.setLevel(level)
        for name, is_available in found.items():
            setattr(utils, name, is_available)

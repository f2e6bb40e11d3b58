"""The bundled reader: a small model that finds facts in long documents, and the demo's handbook.

The model card is `weights/README.md`; how the model was trained is in `training/`, which no wheel
holds.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
WEIGHTS = FOLDER / "weights"  # a Hugging Face model folder, with its head plan
HANDBOOK = FOLDER / "handbook"  # the demo's document, and questions about it

"""What the decode kernels of a layer share: their inputs, their sizes and their buffers."""

from engine.kernels.decoding.inputs import (
    QuestionKeys,
    ResidentLayer,
    Scoring,
    StreamingKeys,
    UpperLevel,
    upper_level,
)
from engine.kernels.decoding.sizes import Sizes, sizes_of
from engine.kernels.decoding.tuning import Tuning, fitting
from engine.kernels.decoding.workspace import Workspace, allocate

__all__ = [
    "QuestionKeys",
    "ResidentLayer",
    "Scoring",
    "Sizes",
    "StreamingKeys",
    "Tuning",
    "UpperLevel",
    "Workspace",
    "allocate",
    "fitting",
    "sizes_of",
    "upper_level",
]

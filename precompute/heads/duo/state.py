"""The state of a training on disk: gates, the optimiser's moments and the settings."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from common.errors import InvalidInput


def save_state(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Replace the state by a new one, whole or not at all.

    Args:
        about: JSON-like; what a resumed training must agree with.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    save_file(
        {name: one.detach().cpu().contiguous() for name, one in tensors.items()},
        fresh,
        metadata={"about": json.dumps(about, sort_keys=True)},
    )
    os.replace(fresh, path)


def load_state(path: Path, about: Mapping[str, Any]) -> dict[str, Tensor] | None:
    """The saved tensors, or None if there is no file.

    Raises: InvalidInput if the file is of another training or no state at all.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            same = (file.metadata() or {}).get("about") == json.dumps(about, sort_keys=True)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise InvalidInput(f"'{path}' is no saved state of a training.") from error
    if not same:
        raise InvalidInput(
            f"'{path}' is the state of another training (model or settings differ): remove it, or "
            "name another file."
        )
    return tensors

"""Plug-ins are files: a module in a folder that defines `build(config)` is registered by name."""

import importlib
import pkgutil
from types import ModuleType
from typing import Any

from common.errors import UnknownPlugin


def names(package: ModuleType) -> tuple[str, ...]:
    """List the plug-ins of `package`: its modules beside `base`, in alphabetical order."""
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(sorted(name for name in found if name != "base" and not name.startswith("_")))


def load(package: ModuleType, name: str) -> ModuleType:
    """Import one plug-in; the others stay unimported, so their extras stay optional.

    Raises: UnknownPlugin if no file of that name stands in the folder.
    """
    if name not in names(package):
        choices = ", ".join(names(package))
        raise UnknownPlugin(f"{package.__name__} has no '{name}'; choose one of: {choices}.")
    return importlib.import_module(f"{package.__name__}.{name}")


def build(package: ModuleType, name: str, config: Any = None) -> Any:
    """Import one plug-in and build it.

    Raises: UnknownPlugin if no file of that name stands in the folder.
    """
    return load(package, name).build(config)

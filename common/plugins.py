"""Plug-ins: a module of a package that defines `build(config)` is a plug-in under its own name."""

import importlib
import pkgutil
from types import ModuleType
from typing import Any

from common.errors import UnknownPlugin


def names(package: ModuleType) -> tuple[str, ...]:
    """Return the names of a package's plug-ins in alphabetical order.

    These are all of its modules, except `base` and those whose name begins with an underscore.
    """
    modules = (module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(sorted(name for name in modules if name != "base" and not name.startswith("_")))


def load(package: ModuleType, name: str) -> ModuleType:
    """Import one plug-in. The others are not imported, so that what they need stays optional.

    Args:
        package: the package that contains the plug-ins.
        name: the plug-in's name.
    Raises: UnknownPlugin if the package has no plug-in of this name.
    """
    if name not in names(package):
        choices = ", ".join(names(package))
        raise UnknownPlugin(f"{package.__name__} has no '{name}'; choose one of: {choices}.")
    return importlib.import_module(f"{package.__name__}.{name}")


def build(package: ModuleType, name: str, config: Any = None) -> Any:
    """Import one plug-in and call its `build`.

    Args:
        package: the package that contains the plug-ins.
        name: the plug-in's name.
        config: passed to `build`.
    Raises: UnknownPlugin if the package has no plug-in of this name.
    """
    return load(package, name).build(config)

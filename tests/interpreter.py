"""Triton's interpreter, without what it repeats."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import triton.language as tl
from triton.runtime import interpreter


def hasten(patch: pytest.MonkeyPatch) -> None:
    """Let a kernel's launch replace each module of Triton's language once.

    The interpreter replaces them anew whenever a kernel calls a function, even `tl.sum`. That takes
    milliseconds, and nearly half of the time of our kernels.
    """
    replace: Callable[[Any], Any] = interpreter._patch_lang
    restore = interpreter._LangPatchScope.restore
    replaced: list[ModuleType] = []

    def replace_once(function: Any) -> Any:
        seen = [each for each in (tl, tl.core) if each in _modules(function)]
        if all(each in replaced for each in seen):
            return interpreter._LangPatchScope()
        replaced.extend(seen)
        return replace(function)

    def restore_all(scope: Any) -> None:  # when the launch has ended
        replaced.clear()
        restore(scope)

    patch.setattr(interpreter, "_patch_lang", replace_once)
    patch.setattr(interpreter._LangPatchScope, "restore", restore_all)


def _modules(function: Any) -> list[ModuleType]:
    return [each for each in function.__globals__.values() if isinstance(each, ModuleType)]

"""Triton's interpreter, without what it repeats or computes for nothing."""

import math
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter


def hasten(patch: pytest.MonkeyPatch) -> None:
    """Let kernels compute the same numbers in about a third of the time."""
    _replace_modules_once_a_launch(patch)
    _leave_out_unused_overflow_conditions(patch)
    _keep_equal_shapes(patch)
    _remember_types(patch)
    _remember_shapes(patch)


def _replace_modules_once_a_launch(patch: pytest.MonkeyPatch) -> None:
    """Let a kernel's launch replace each module of Triton's language once.

    The interpreter replaces them anew whenever a kernel calls a function, even `tl.sum`. That takes
    milliseconds, and nearly half of the time of our kernels.
    """
    replace_modules: Callable[[Any], Any] = interpreter._patch_lang
    restore = interpreter._LangPatchScope.restore
    replaced: list[ModuleType] = []
    known: dict[int, tuple[Any, list[ModuleType]]] = {}

    def replace_once(function: Any) -> Any:
        if id(function) not in known:  # the function is kept, so that its number is not used again
            modules = [each for each in (tl, tl.core) if each in _modules(function)]
            known[id(function)] = function, modules
        seen = known[id(function)][1]
        if all(each in replaced for each in seen):
            return interpreter._LangPatchScope()
        replaced.extend(seen)
        return replace_modules(function)

    def restore_all(scope: Any) -> None:  # when the launch has ended
        replaced.clear()
        restore(scope)

    patch.setattr(interpreter, "_patch_lang", replace_once)
    patch.setattr(interpreter._LangPatchScope, "restore", restore_all)


def _modules(function: Any) -> list[ModuleType]:
    return [each for each in function.__globals__.values() if isinstance(each, ModuleType)]


def _leave_out_unused_overflow_conditions(patch: pytest.MonkeyPatch) -> None:
    """Compute no condition of overflow, as only kernels in debug mode assert it.

    The interpreter computes one for every sum and product of integers, and throws it away.
    """
    builder = interpreter.interpreter_builder
    if not builder.options.debug:
        patch.setattr(builder, "options", replace(builder.options, sanitize_overflow=False))


def _keep_equal_shapes(patch: pytest.MonkeyPatch) -> None:
    """Broadcast no tensors to the shape that they have."""
    broadcast: Callable[..., Any] = TritonSemantic.broadcast_impl_value

    def broadcast_unless_equal(semantic: Any, left: Any, right: Any) -> Any:
        if left.type.is_block() and right.type.is_block() and left.type.shape == right.type.shape:
            return left, right
        return broadcast(semantic, left, right)

    patch.setattr(TritonSemantic, "broadcast_impl_value", broadcast_unless_equal)


def _remember_types(patch: pytest.MonkeyPatch) -> None:
    """Find NumPy's type of a Triton type by its name, where the interpreter fills a dictionary."""
    find: Callable[[Any], Any] = interpreter._get_np_dtype
    known: dict[str, np.dtype[Any]] = {}

    def find_once(kind: Any) -> Any:
        name = kind.scalar.name
        if name not in known:
            known[name] = find(kind.scalar)
        return known[name]

    patch.setattr(interpreter, "_get_np_dtype", find_once)


def _remember_shapes(patch: pytest.MonkeyPatch) -> None:
    """Share what follows from a shape between all tensors that have it."""
    of_tensors: dict[Any, tuple[Any, Any]] = {}
    of_blocks: dict[tuple[str, Any], dict[str, Any]] = {}
    make_block: Callable[..., None] = tl.block_type.__init__

    def tensor(self: Any, handle: Any, kind: Any) -> None:
        shape = kind.shape if kind.is_block() else ()
        if shape not in of_tensors:
            sizes = tl.tuple([tl.constexpr(size) for size in shape])
            of_tensors[shape] = tl.constexpr(math.prod(shape)), sizes
        self.handle, self.type, self.dtype = handle, kind, kind.scalar
        self.numel, self.shape = of_tensors[shape]

    def block(self: Any, element: Any, shape: Any) -> None:
        if not all(type(size) is int for size in shape):
            make_block(self, element, shape)
            return
        key = element.name, tuple(shape)
        if key not in of_blocks:
            make_block(self, element, shape)
            of_blocks[key] = vars(self).copy()
        vars(self).update(of_blocks[key])

    patch.setattr(tl.tensor, "__init__", tensor)
    patch.setattr(tl.block_type, "__init__", block)

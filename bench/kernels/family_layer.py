"""One layer's shape, what is drawn for it, and how far results are from what they should be."""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from engine.kernels.shared.state import State

Errors = dict[str, float]
Value = TypeVar("Value")
SPARSITY = 90  # percent of the clustered tokens that are left out


@dataclass(frozen=True)
class LayerShape:
    """What one attention layer looks like to the kernels; `scale` is 1 / sqrt(width) if None."""

    num_heads: int
    kv_heads: int
    head_dim: int
    scale: float | None = None
    softcap: float | None = None
    window: int | None = None

    @property
    def factor(self) -> float:
        """Factor on scores."""
        return self.scale or self.head_dim**-0.5

    def __str__(self) -> str:
        cap = "" if self.softcap is None else f", cap {self.softcap:g}"
        window = "" if self.window is None else f", window {self.window}"
        return f"{self.num_heads}/{self.kv_heads} heads of {self.head_dim}{cap}{window}"


@dataclass(frozen=True)
class Effort:
    """How large a document and its questions are.

    Attributes:
        num_tokens: of the document.
        questions: tokens of the questions that are prefilled.
        dtype: of keys and queries; the interpreter's products in bf16 are wrong.
        num_anchors: sinks and exact tail.
        most_kv_heads: heads are left out above it; groups stay as they are.
    """

    num_tokens: int
    questions: tuple[int, ...]
    dtype: str = "bfloat16"
    num_anchors: int = 144
    most_kv_heads: int = 1 << 30

    @classmethod
    def tiny(cls) -> "Effort":
        """For the interpreter."""
        return cls(250, (3, 18), "float32", num_anchors=20, most_kv_heads=1)


# -- what is drawn ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw:
    """Standard normal numbers of a seed, on a device and in a dtype."""

    device: str
    dtype: torch.dtype

    def __call__(self, *shape: int, seed: int) -> Tensor:
        """Draw a tensor."""
        generator = torch.Generator(self.device).manual_seed(seed)
        drawn = torch.randn(shape, generator=generator, device=self.device)
        return drawn.to(self.dtype)


def as_dtype(value: Value, dtype: torch.dtype) -> Value:
    """The same with half-precision tensors in another dtype, within dataclasses and tuples."""
    found: Any = value
    if isinstance(value, Tensor):
        found = value.to(dtype) if value.dtype in (torch.bfloat16, torch.float16) else value
    elif isinstance(value, tuple):
        found = type(value)(*(as_dtype(part, dtype) for part in value))
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: as_dtype(getattr(value, field.name), dtype) for field in fields(value)}
        found = replace(value, **parts)
    return found  # type: ignore[no-any-return]


# -- how far results are apart ---------------------------------------------------------------------


def by_head(found: State, expected: State, tokens: int) -> Errors:
    """Compare states whose rows are group x tokens, query head by query head."""
    ours, theirs = (
        State(one.out.view(len(one.out), -1, tokens, one.out.shape[2]), one.lse)
        for one in (found, expected)
    )
    return apart(ours, theirs, by=(2, 3))


def apart(found: State, expected: State, by: tuple[int, ...]) -> Errors:
    """Of the worst query head, whose outputs are over the dimensions `by`; nan counts as far."""
    off = torch.linalg.vector_norm(found.out.float() - expected.out.float(), dim=by)
    size = torch.linalg.vector_norm(expected.out.float(), dim=by)
    lse = (found.lse - expected.lse).abs().max()
    return {"out": _number((off / size).max()), "lse": _number(lse)}


def relative(found: Tensor, expected: Tensor) -> float:
    """Norm of the difference over the norm."""
    off = (found.float() - expected.float()).norm() / expected.float().norm()
    return _number(off)


def _number(error: Tensor) -> float:
    """A number that JSON knows; infinite errors and those that are none are large."""
    return float(error.nan_to_num(nan=1e30, posinf=1e30))

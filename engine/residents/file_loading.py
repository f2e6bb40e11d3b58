"""Load a document's files in one pipeline: read, verify and copy piece by piece, several at once.

No file is ever whole in the host's memory: each piece goes from the disk into a buffer, is hashed
there and copied on to its place on the device. Nothing is handed out before all files are verified.
"""

import json
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor

from common.errors import CorruptArtifact
from engine.document.artifact import (
    DOCUMENT_FILE,
    NOT_AS_DESCRIBED,
    assemble_document,
    assemble_layer,
    layer_file,
    layer_shapes,
)
from engine.document.cache import DocumentCache
from engine.document.safetensors_writer import NAMES
from engine.residents.staging import Staging

MAX_HEADER_BYTES = 1 << 20
DTYPES = {name: dtype for dtype, name in NAMES.items()}
CPU = torch.device("cpu")


class VerifiedFile(Protocol):
    """A stored file that is read once, from its beginning to its end, and then verified."""

    @property
    def num_bytes(self) -> int:
        """Bytes of the whole file."""
        ...

    def read_into(self, buffer: memoryview) -> None:
        """Read the next bytes, as many as the buffer holds. Raises: CorruptArtifact at the end."""
        ...

    def verify(self) -> None:
        """Return if the whole file was read and is what was stored. Raises: CorruptArtifact."""
        ...


OpenFile = Callable[[str], AbstractContextManager[VerifiedFile]]


def load_document(
    manifest: Mapping[str, Any],
    open_file: OpenFile,
    *,
    dtype: torch.dtype,
    staging: Staging,
    read_ahead: Callable[[str], None] = lambda _: None,
) -> DocumentCache:
    """Load a document from a verified manifest and its files.

    Args:
        open_file: opens a file by its name; it is called on several threads at once.
        dtype: what keys, values and centroids become.
        staging: the way to the device.
        read_ahead: told the name of a file that is opened soon, so that a disk need not wait until
            a thread is through with the last one; likewise.
    Raises: CorruptArtifact if a file is missing or not what was stored, or does not fit the
        manifest; torch.OutOfMemoryError; what `open_file` raises.
    """

    def load_layer(index: int) -> Any:
        if (later := index + staging.num_threads) < len(shapes):
            read_ahead(layer_file(later))
        with open_file(layer_file(index)) as file:
            parts = _load_tensors(file, shapes[index], dtype, staging)
            return assemble_layer(manifest["layers"][index], parts)

    def load(index: int | None) -> Any:
        if index is not None:
            return load_layer(index)
        with open_file(DOCUMENT_FILE) as file:
            return _load_text(file)

    try:
        shapes = layer_shapes(manifest)
        parts, *layers = staging.map(load, (None, *range(len(shapes))))
        return assemble_document(manifest, parts, layers)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptArtifact(NOT_AS_DESCRIBED) from error


def _load_tensors(
    file: VerifiedFile, shapes: Mapping[str, Any], dtype: torch.dtype, staging: Staging
) -> dict[str, Tensor]:
    """Load a layer's tensors onto the device; nothing of an unverified file is returned."""
    described = _read_header(file)
    if {name: shape for name, _, shape in described} != shapes:
        raise CorruptArtifact(NOT_AS_DESCRIBED)
    parts: dict[str, Tensor] = {}
    for name, stored, shape in described:
        tensor = staging.empty(shape, stored)
        staging.fill(tensor, file.read_into)
        parts[name] = tensor.to(dtype) if stored.is_floating_point else tensor
    file.verify()
    return parts


def _load_text(file: VerifiedFile) -> dict[str, Tensor]:
    """Load the document's ids, spans and text, which stay on the host."""
    parts: dict[str, Tensor] = {}
    for name, stored, shape in _read_header(file):
        parts[name] = torch.empty(shape, dtype=stored)
        if parts[name].numel():
            file.read_into(parts[name].reshape(-1).view(torch.uint8).numpy().data)
    file.verify()
    return parts


def _read_header(file: VerifiedFile) -> list[tuple[str, torch.dtype, list[int]]]:
    """Read which tensors a safetensors file holds, in the order of their bytes.

    Returns: (name, dtype, shape); they fill the rest of the file without a gap.
    Raises: CorruptArtifact, ValueError, KeyError or TypeError if it is none.
    """
    prefix = bytearray(8)
    file.read_into(memoryview(prefix))
    length = int.from_bytes(prefix, "little")
    if length > min(MAX_HEADER_BYTES, file.num_bytes - len(prefix)):
        raise CorruptArtifact(NOT_AS_DESCRIBED)
    header = bytearray(length)
    file.read_into(memoryview(header))
    fields = json.loads(header)
    fields.pop("__metadata__", None)
    tensors, end = [], 0
    for name, field in sorted(fields.items(), key=lambda item: tuple(item[1]["data_offsets"])):
        stored, shape = DTYPES[field["dtype"]], [int(size) for size in field["shape"]]
        begin, end_here = field["data_offsets"]
        num_bytes = math.prod(shape) * stored.itemsize
        if begin != end or end_here != begin + num_bytes or min(shape, default=0) < 0:
            raise CorruptArtifact(NOT_AS_DESCRIBED)
        tensors.append((name, stored, shape))
        end = end_here
    if len(prefix) + length + end != file.num_bytes:
        raise CorruptArtifact(NOT_AS_DESCRIBED)
    return tensors

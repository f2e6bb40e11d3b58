"""The artifact: a document cache as named safetensors files and a manifest, and back.

Where the bytes lie, their hashes and their publication are the storage's business.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from common.errors import CorruptArtifact, NonFiniteNumbers
from common.passages import KINDS, Block, DocumentStructure, Passage, plain_structure
from common.versions import TEXT_FORMAT
from engine.config import LookupConfig
from engine.document.budget import BudgetCurve, BudgetCurves, BudgetLosses, LayerSplit, Thresholds
from engine.document.cache import (
    Clusters,
    DocumentCache,
    LayerCache,
    LengthChoices,
    Page,
    ScopedHeads,
    StreamingCache,
)
from engine.document.retrieval_profile import RetrievalProfile
from engine.document.safetensors_writer import SafetensorsFile

DOCUMENT_FILE = "document.safetensors"
NOT_AS_DESCRIBED = "The stored cache does not fit its own description."


def layer_file(layer: int) -> str:
    """Name of a layer's file."""
    return f"layer-{layer:03d}.safetensors"


def pack(
    document: DocumentCache, dtype: str
) -> tuple[dict[str, Any], Iterator[tuple[str, memoryview]]]:
    """Describe a document for the manifest, and yield its files one by one.

    Args:
        dtype: of stored keys, values and centroids: "float32", "bfloat16" or "float16".
    Returns: the manifest's part (JSON-like), and (name, bytes) of each file; taking a file raises
        NonFiniteNumbers if its numbers do not fit into the dtype.
    """
    return describe(document, dtype), _files(document, dtype)


def describe(document: DocumentCache, dtype: str) -> dict[str, Any]:
    """Describe a document for the manifest, in JSON values; `dtype` as of `pack`."""
    return {
        "codec": "none",
        "dtype": dtype,
        "text_format": TEXT_FORMAT,
        "num_tokens": document.num_tokens,
        "num_sinks": document.num_sinks,
        "lookup": asdict(document.lookup),
        "curves": asdict(document.curves),
        "choices": asdict(document.choices),
        "pages": [[page.number, page.start, page.end] for page in document.pages],
        "layers": [_describe(layer) for layer in document.layers],
    }


def pack_text(document: DocumentCache) -> SafetensorsFile:
    """Make the file named `DOCUMENT_FILE`: text, structure, tokens and where they stand.

    Of the structure there are `blocks` (blocks, 4), the index of the kind, start, end and level of
    each, and `passages` (passages, 3), their start, end and block; int32.
    """
    text = torch.frombuffer(bytearray(document.text.encode()), dtype=torch.uint8)
    structure = document.structure
    blocks = [[KINDS.index(one.kind), one.start, one.end, one.level] for one in structure.blocks]
    passages = [[one.start, one.end, one.block] for one in structure.passages]
    parts = {
        "ids": document.ids,
        "offsets": document.offsets,
        "text": text,
        "blocks": torch.tensor(blocks, dtype=torch.int32).reshape(-1, 4),
        "passages": torch.tensor(passages, dtype=torch.int32).reshape(-1, 3),
    }
    if document.profile is not None:  # see `RetrievalProfile`
        parts["head_weights"] = document.profile.head_weights
        parts["neutral_mass"] = document.profile.neutral
    return SafetensorsFile({name: part.contiguous() for name, part in parts.items()})


def pack_layer(index: int, layer: LayerCache, dtype: str) -> SafetensorsFile:
    """Make the file of a layer, named by `layer_file`; `dtype` as of `pack`.

    Raises: NonFiniteNumbers if its numbers do not fit into the dtype.
    """
    stored_dtype: torch.dtype = getattr(torch, dtype)
    tensors = {}
    for name, part in _named(layer).items():
        fits = not part.is_floating_point() or part.dtype == stored_dtype
        tensors[name] = (part if fits else part.to(stored_dtype)).contiguous()
        if not fits:
            _check_finite(index, name, tensors[name])
    return SafetensorsFile(tensors)


@dataclass(frozen=True)
class DocumentText:
    """The text that was read from a document, its structure, and where its pages are.

    Attributes:
        format: the version of text extraction that it was read by, `common.versions.TEXT_FORMAT`.
    """

    text: str
    pages: tuple[Page, ...]
    structure: DocumentStructure
    format: int


def unpack_text(
    manifest: Mapping[str, Any], files: Iterable[tuple[str, bytes | memoryview]]
) -> DocumentText:
    """Take the text out of an artifact, of which only `DOCUMENT_FILE` is needed.

    Raises: CorruptArtifact if the file is missing or unreadable.
    """
    try:
        (data,) = (given for name, given in files if name == DOCUMENT_FILE)
        parts = load(bytes(data))
        text = _decode_text(parts)
        text_format = int(manifest.get("text_format", 1))
        return DocumentText(text, _pages(manifest), _structure(parts, text), text_format)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CorruptArtifact(NOT_AS_DESCRIBED) from error


def resident_bytes(manifest: Mapping[str, Any], dtype: torch.dtype) -> int:
    """Return the bytes of memory that a document takes, from its verified manifest alone.

    Args:
        dtype: what keys, values and centroids become.
    Raises: CorruptArtifact if the manifest describes no document.
    """
    try:
        per_token = torch.int64.itemsize + 2 * torch.int32.itemsize  # its id, and its span
        num_bytes = int(manifest["num_tokens"]) * per_token
        for layer in manifest["layers"]:
            for name, shape in layer["shapes"].items():
                num_bytes += math.prod(shape) * _memory_dtype(name, dtype).itemsize
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptArtifact(NOT_AS_DESCRIBED) from error
    return num_bytes


def _memory_dtype(name: str, dtype: torch.dtype) -> torch.dtype:
    """The dtype of a layer's tensor in memory."""
    is_integer = name == "positions" or name.endswith(".offsets")
    return torch.int32 if is_integer else dtype


def unpack(
    manifest: Mapping[str, Any],
    files: Iterable[tuple[str, bytes | memoryview]],
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> DocumentCache:
    """Build the document cache from a manifest and its verified files, in any order.

    Args:
        device, dtype: where keys, values and centroids go, and what they become.
    Raises: CorruptArtifact if a file is missing, unreadable or of another shape than described.
    """
    try:
        return _unpack(manifest, files, device, dtype)
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptArtifact(NOT_AS_DESCRIBED) from error


def _files(document: DocumentCache, dtype: str) -> Iterator[tuple[str, memoryview]]:
    yield DOCUMENT_FILE, pack_text(document).whole()
    for index, layer in enumerate(document.layers):
        yield layer_file(index), pack_layer(index, layer, dtype).whole()


def _check_finite(layer: int, name: str, tensor: Tensor) -> None:
    """Refuse what became infinite because the stored dtype's range is too narrow for it.

    Raises: NonFiniteNumbers that names the layer.
    """
    if not bool(torch.isfinite(tensor).all()):
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise NonFiniteNumbers(
            f"The {name} of layer {layer} do not fit into {dtype}: store caches in another "
            "dtype (LECTERN_PRECOMPUTE__DTYPE)."
        )


def _named(layer: LayerCache) -> dict[str, Tensor]:
    named = {
        "keys": layer.keys,
        "values": layer.values,
        "positions": layer.positions,
        "level2.centroids": layer.level2.centroids,
        "level2.offsets": layer.level2.offsets,
        "level1.centroids": layer.level1.centroids,
        "level1.offsets": layer.level1.offsets,
    }
    if layer.streaming is not None:
        named |= {
            "streaming.keys": layer.streaming.keys,
            "streaming.values": layer.streaming.values,
        }
    for index, part in enumerate(layer.scoped):
        named |= {f"scoped{index}.keys": part.keys, f"scoped{index}.values": part.values}
    return named


def _describe(layer: LayerCache) -> dict[str, Any]:
    return {
        "num_anchors": layer.num_anchors,
        "window": layer.window,
        "num_dropped": None if layer.streaming is None else layer.streaming.num_dropped,
        "scoped": [list(part.heads) for part in layer.scoped],
        "shapes": {name: list(part.shape) for name, part in _named(layer).items()},
    }


def _unpack(
    manifest: Mapping[str, Any],
    files: Iterable[tuple[str, bytes | memoryview]],
    device: torch.device,
    dtype: torch.dtype,
) -> DocumentCache:
    shapes = layer_shapes(manifest)
    wanted = {layer_file(index): index for index in range(len(shapes))}
    layers: dict[int, LayerCache] = {}
    parts: dict[str, Tensor] | None = None
    for name, given in files:
        data = bytes(given)  # no copy of what is bytes already
        if name == DOCUMENT_FILE:
            parts = load(data)
        else:
            index = wanted[name]
            tensors = {
                part: tensor.to(device, dtype if tensor.is_floating_point() else tensor.dtype)
                for part, tensor in load(data).items()
            }
            if {part: list(tensor.shape) for part, tensor in tensors.items()} != shapes[index]:
                raise CorruptArtifact("A layer's tensors are of other shapes than described.")
            layers[index] = assemble_layer(manifest["layers"][index], tensors)
    if parts is None or len(layers) != len(shapes):
        raise CorruptArtifact("The stored cache lacks some of its files.")
    return assemble_document(manifest, parts, [layers[index] for index in range(len(shapes))])


def layer_shapes(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """By layer, the shapes of its tensors by name, as a manifest describes them."""
    return [layer["shapes"] for layer in manifest["layers"]]


def assemble_document(
    manifest: Mapping[str, Any], parts: Mapping[str, Tensor], layers: Sequence[LayerCache]
) -> DocumentCache:
    """Put a document together from a manifest, the tensors of `DOCUMENT_FILE` and its layers.

    Raises: CorruptArtifact, KeyError, TypeError or ValueError if they do not fit together.
    """
    num_tokens, num_sinks = int(manifest["num_tokens"]), int(manifest["num_sinks"])
    if parts["ids"].shape != (num_tokens,) or parts["offsets"].shape != (num_tokens, 2):
        raise CorruptArtifact("The stored cache has another number of tokens than described.")
    text = _decode_text(parts)
    return DocumentCache(
        layers=tuple(layers),
        ids=parts["ids"],
        offsets=parts["offsets"],
        text=text,
        pages=_pages(manifest),
        num_sinks=num_sinks,
        lookup=LookupConfig(**manifest["lookup"]),
        curves=_curves(manifest["curves"]),
        choices=LengthChoices(**manifest.get("choices", {})),  # older artifacts made none
        structure=_structure(parts, text),
        profile=_profile(parts, num_tokens, len(layers)),
    )


def assemble_layer(described: Mapping[str, Any], parts: Mapping[str, Tensor]) -> LayerCache:
    """Put a layer together from its description and its tensors by name."""
    return LayerCache(
        keys=parts["keys"],
        values=parts["values"],
        positions=parts["positions"],
        num_anchors=described["num_anchors"],
        level2=Clusters(parts["level2.centroids"], parts["level2.offsets"]),
        level1=Clusters(parts["level1.centroids"], parts["level1.offsets"]),
        window=described["window"],
        streaming=_streaming(described["num_dropped"], parts),
        scoped=tuple(
            ScopedHeads(tuple(heads), parts[f"scoped{index}.keys"], parts[f"scoped{index}.values"])
            for index, heads in enumerate(described["scoped"])
        ),
    )


def _streaming(num_dropped: int | None, parts: Mapping[str, Tensor]) -> StreamingCache | None:
    if num_dropped is None:
        return None
    return StreamingCache(parts["streaming.keys"], parts["streaming.values"], num_dropped)


def _curves(given: Mapping[str, Any]) -> BudgetCurves:
    split = given.get("split", {"shares": (), "layers": ()})  # earlier artifacts have none
    losses = given.get("losses", {"budgets": (), "losses": ()})
    return BudgetCurves(
        prefill=_curve(given["prefill"]),
        decode=_curve(given["decode"]),
        split=LayerSplit(tuple(split["shares"]), tuple(map(tuple, split["layers"]))),
        losses=BudgetLosses(tuple(losses["budgets"]), tuple(losses["losses"])),
    )


def _curve(given: Mapping[str, Any]) -> BudgetCurve:
    return BudgetCurve(
        shares=tuple(given["shares"]),
        thresholds=tuple(Thresholds(**one) for one in given["thresholds"]),
    )


def _decode_text(parts: Mapping[str, Tensor]) -> str:
    return bytes(parts["text"].numpy()).decode()


def _profile(
    parts: Mapping[str, Tensor], num_tokens: int, num_layers: int
) -> RetrievalProfile | None:
    """The profile that is stored; older artifacts store none.

    Raises: CorruptArtifact, KeyError if it does not fit the document.
    """
    if "neutral_mass" not in parts:
        return None
    weights, neutral = parts["head_weights"].float(), parts["neutral_mass"].float()
    if neutral.shape != (num_tokens,) or weights.ndim != 2 or len(weights) != num_layers:
        raise CorruptArtifact(NOT_AS_DESCRIBED)
    return RetrievalProfile(weights, neutral)


def _structure(parts: Mapping[str, Tensor], text: str) -> DocumentStructure:
    """The structure that is stored; older artifacts store none, and their lines are paragraphs.

    Raises: KeyError, ValueError or TypeError for tensors that are none.
    """
    if "passages" not in parts:
        return plain_structure(text)
    kinds = dict(enumerate(KINDS))
    return DocumentStructure(
        blocks=tuple(Block(kinds[kind], *rest) for kind, *rest in parts["blocks"].tolist()),
        passages=tuple(Passage(*one) for one in parts["passages"].tolist()),
    )


def _pages(manifest: Mapping[str, Any]) -> tuple[Page, ...]:
    return tuple(Page(*page) for page in manifest["pages"])

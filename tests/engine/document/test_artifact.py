"""A document cache through its files and back."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.testing import assert_close

from common.errors import CorruptArtifact
from engine.document.artifact import DOCUMENT_FILE, layer_file, pack, resident_bytes, unpack
from engine.document.cache import DocumentCache, LayerCache
from tests.models import FAMILIES, HALF, loaded, prose, read

CPU = torch.device("cpu")
Files = dict[str, bytes]
TEXT = "Zoë paid 5 € for the map. " + prose(400)


@pytest.fixture(scope="module", params=["llama", "gemma2", "llama with a plan"])
def document(request: pytest.FixtureRequest) -> DocumentCache:
    """With clusters in every layer, with a sliding window in the first one, with dual caches."""
    family, _, plan = request.param.partition(" ")
    return read(loaded(FAMILIES[family], plan=HALF if plan else None), TEXT)


@pytest.fixture
def manifest(document: DocumentCache) -> dict[str, Any]:
    """As it comes back from JSON."""
    found: dict[str, Any] = json.loads(json.dumps(pack(document, "float32")[0]))
    return found


@pytest.fixture
def files(document: DocumentCache) -> Files:
    return {name: bytes(data) for name, data in pack(document, "float32")[1]}


def reopened(manifest: dict[str, Any], files: Files) -> DocumentCache:
    return unpack(manifest, files.items(), device=CPU, dtype=torch.float32)


def test_a_round_trip_changes_nothing(
    document: DocumentCache, manifest: dict[str, Any], files: Files
) -> None:
    found = reopened(manifest, files)
    assert (found.text, found.pages, found.num_sinks) == (TEXT, document.pages, 4)
    assert (found.lookup, found.curves) == (document.lookup, document.curves)
    assert_close(found.ids, document.ids)
    assert_close(found.offsets, document.offsets)
    assert found.num_bytes == document.num_bytes == resident_bytes(manifest, torch.float32)
    for ours, theirs in zip(found.layers, document.layers, strict=True):
        assert (ours.num_anchors, ours.window) == (theirs.num_anchors, theirs.window)
        assert num_dropped(ours) == num_dropped(theirs)
        for one, other in zip(ours.tensors(), theirs.tensors(), strict=True):
            assert_close(one, other, rtol=0, atol=0)


def test_the_profile_comes_back_and_an_earlier_artifact_has_none(
    document: DocumentCache, manifest: dict[str, Any], files: Files
) -> None:
    found, wanted = reopened(manifest, files).profile, document.profile
    assert found is not None
    assert wanted is not None
    assert_close(found.neutral, wanted.neutral, rtol=0, atol=0)
    assert_close(found.head_weights, wanted.head_weights, rtol=0, atol=0)
    parts = load(files[DOCUMENT_FILE])
    for name in ("neutral_mass", "head_weights"):
        del parts[name]
    earlier = reopened(manifest, {**files, DOCUMENT_FILE: save(parts)})
    assert earlier.profile is None
    assert earlier.text == TEXT


def num_dropped(layer: LayerCache) -> int | None:
    return None if layer.streaming is None else layer.streaming.num_dropped


def test_the_order_of_files_does_not_matter(manifest: dict[str, Any], files: Files) -> None:
    found = reopened(manifest, dict(reversed(files.items())))
    assert_close(found.layers[1].keys, reopened(manifest, files).layers[1].keys)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_stored_and_held_dtypes_are_chosen_apart(
    document: DocumentCache, dtype: torch.dtype
) -> None:
    manifest, files = pack(document, str(dtype).removeprefix("torch."))
    stored = {name: bytes(data) for name, data in files}
    assert load(stored[layer_file(0)])["keys"].dtype == dtype
    found = unpack(manifest, stored.items(), device=CPU, dtype=torch.float32)
    for ours, theirs in zip(found.layers, document.layers, strict=True):
        assert ours.keys.dtype == ours.level2.centroids.dtype == torch.float32
        assert torch.equal(ours.keys, theirs.keys.to(dtype).float())
        assert ours.positions.dtype == ours.level2.offsets.dtype == torch.int32


def test_a_file_is_built_when_it_is_asked_for(document: DocumentCache) -> None:
    """Large documents must not lie in memory twice."""
    _, files = pack(document, "float32")
    assert next(iter(files))[0] == DOCUMENT_FILE
    assert [name for name, _ in files] == [layer_file(0), layer_file(1)]


def test_the_manifest_describes_every_tensor(manifest: dict[str, Any], files: Files) -> None:
    assert set(files) == {DOCUMENT_FILE, layer_file(0), layer_file(1)}
    for index, described in enumerate(manifest["layers"]):
        shapes = {name: list(part.shape) for name, part in load(files[layer_file(index)]).items()}
        assert described["shapes"] == shapes


def without(name: str) -> Callable[[Files], None]:
    def damage(files: Files) -> None:
        del files[name]

    return damage


def replaced(name: str, data: Callable[[bytes], bytes]) -> Callable[[Files], None]:
    def damage(files: Files) -> None:
        files[name] = data(files[name])

    return damage


def changed(name: str, change: Callable[[dict[str, Tensor]], object]) -> Callable[[Files], None]:
    def edited(data: bytes) -> bytes:
        parts = load(data)
        change(parts)
        return save({part: tensor.contiguous() for part, tensor in parts.items()})

    return replaced(name, edited)


def shorter(part: str) -> Callable[[dict[str, Tensor]], object]:
    return lambda parts: parts.update({part: parts[part][:-1]})


DAMAGES: dict[str, Callable[[Files], None]] = {
    "a layer is missing": without(layer_file(1)),
    "the document is missing": without(DOCUMENT_FILE),
    "a stranger is there": lambda files: files.update({"other": files[DOCUMENT_FILE]}),
    "an empty layer": replaced(layer_file(0), lambda _: b""),
    "a layer of garbage": replaced(layer_file(0), lambda data: bytes(range(256)) * 40),
    "a cut layer": replaced(layer_file(0), lambda data: data[:-7]),
    "a header that lies": replaced(layer_file(0), lambda data: b"\xff" * 8 + data[8:]),
    "a document of garbage": replaced(DOCUMENT_FILE, lambda data: b"\x00" * 100),
    "a tensor less": changed(layer_file(0), lambda parts: parts.pop("positions")),
    "a tensor more": changed(layer_file(0), lambda parts: parts.update(x=torch.zeros(1))),
    "a head less": changed(layer_file(0), shorter("keys")),
    "another centroid count": changed(
        layer_file(0), lambda parts: parts.update({"level1.centroids": torch.zeros(2, 99, 16)})
    ),
    "no text": changed(DOCUMENT_FILE, lambda parts: parts.pop("text")),
    "half a character": changed(DOCUMENT_FILE, lambda parts: parts.update(text=parts["text"][:3])),
    "an id less": changed(DOCUMENT_FILE, shorter("ids")),
    "an offset less": changed(DOCUMENT_FILE, shorter("offsets")),
    "a layer of another document": lambda files: files.update(
        {layer_file(0): files[DOCUMENT_FILE]}
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_noticed(manifest: dict[str, Any], files: Files, damage: str) -> None:
    DAMAGES[damage](files)
    with pytest.raises(CorruptArtifact) as caught:
        reopened(manifest, files)
    assert "stored cache" in caught.value.message or "layer" in caught.value.message


@pytest.mark.parametrize("name", [DOCUMENT_FILE, layer_file(0), layer_file(1)])
def test_a_missing_file_is_called_missing(
    manifest: dict[str, Any], files: Files, name: str
) -> None:
    del files[name]
    with pytest.raises(CorruptArtifact, match="lacks some of its files"):
        reopened(manifest, files)


@pytest.mark.parametrize(
    "field", ["layers", "lookup", "curves", "pages", "num_sinks", "num_tokens"]
)
@pytest.mark.parametrize("value", ["missing", None, "text", {"a": 1}])
def test_a_damaged_manifest_is_noticed(
    manifest: dict[str, Any], files: Files, field: str, value: object
) -> None:
    if value == "missing":
        del manifest[field]
    else:
        manifest[field] = value
    with pytest.raises(CorruptArtifact):
        reopened(manifest, files)


def test_an_empty_manifest_is_noticed(files: Files) -> None:
    with pytest.raises(CorruptArtifact):
        reopened({}, files)

"""Documents are loaded piece by piece, and never from bytes that were not verified."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch

from common.errors import CorruptArtifact
from engine.document.artifact import DOCUMENT_FILE, layer_file, pack, resident_bytes, unpack
from engine.document.cache import DocumentCache
from engine.residents.file_loading import VerifiedFile, load_document
from engine.residents.staging import Staging
from engine.residents.transfer import DocumentTransfer
from tests.models import FAMILIES, HALF, loaded, prose, read

CPU = torch.device("cpu")
PIECE = 1000  # bytes, so that tensors are cut in odd places


class StoredBytes:
    """A file in memory; a `VerifiedFile`."""

    def __init__(self, data: bytes, is_sound: bool) -> None:
        self.num_bytes = len(data)
        self._rest = memoryview(data)
        self._is_sound = is_sound
        self.largest_read = 0

    def read_into(self, buffer: memoryview) -> None:
        self.largest_read = max(self.largest_read, len(buffer))
        if len(buffer) > len(self._rest):
            raise CorruptArtifact("The file is cut short.")
        buffer[:] = self._rest[: len(buffer)]
        self._rest = self._rest[len(buffer) :]

    def verify(self) -> None:
        if not self._is_sound or len(self._rest):
            raise CorruptArtifact("The file was changed.")


class Folder:
    """The files of a packed document."""

    def __init__(self, document: DocumentCache, dtype: str) -> None:
        described, files = pack(document, dtype)
        self.manifest: dict[str, Any] = json.loads(json.dumps(described))
        self.files = {name: bytes(data) for name, data in files}
        self.changed = ""
        self.largest_read = 0

    @contextmanager
    def open(self, name: str) -> Iterator[StoredBytes]:
        file = StoredBytes(self.files[name], is_sound=name != self.changed)
        yield file
        self.largest_read = max(self.largest_read, file.largest_read)


@pytest.fixture(scope="module", params=["llama", "gemma2", "llama with a plan"])
def document(request: pytest.FixtureRequest) -> DocumentCache:
    """With clusters in every layer, with a sliding window in the first one, with dual caches."""
    family, _, plan = request.param.partition(" ")
    return read(loaded(FAMILIES[family], plan=HALF if plan else None), prose(400))


@pytest.fixture(scope="module")
def staging() -> Iterator[Staging]:
    staging = Staging(CPU, 4 * PIECE, PIECE)
    yield staging
    staging.close()


def assert_same(one: DocumentCache, other: DocumentCache) -> None:
    assert (one.text, one.pages, one.curves, one.lookup) == (
        other.text,
        other.pages,
        other.curves,
        other.lookup,
    )
    assert torch.equal(one.ids, other.ids)
    assert torch.equal(one.offsets, other.offsets)
    for ours, theirs in zip(one.layers, other.layers, strict=True):
        for mine, yours in zip(ours.tensors(), theirs.tensors(), strict=True):
            assert mine.dtype == yours.dtype
            assert torch.equal(mine, yours)


@pytest.mark.parametrize("stored", ["float32", "bfloat16"])
def test_it_loads_what_unpacking_gives_in_pieces(
    document: DocumentCache, staging: Staging, stored: str
) -> None:
    folder = Folder(document, stored)
    found = load_document(folder.manifest, folder.open, dtype=torch.float32, staging=staging)
    files = folder.files.items()
    assert_same(found, unpack(folder.manifest, files, device=CPU, dtype=torch.float32))
    assert found.num_bytes == resident_bytes(folder.manifest, torch.float32)
    # A header and the document's own tensors are read at once; all others in pieces.
    assert folder.largest_read < max(len(data) for data in folder.files.values()) / 4


def test_files_are_told_before_they_are_opened(document: DocumentCache) -> None:
    folder = Folder(document, "float32")
    told: list[str] = []
    one_thread = Staging(CPU, 2 * PIECE, PIECE)

    def open_file(name: str) -> AbstractContextManager[VerifiedFile]:
        told.append(f"open {name}")
        return folder.open(name)

    load_document(
        folder.manifest,
        open_file,
        dtype=torch.float32,
        staging=one_thread,
        read_ahead=lambda name: told.append(f"soon {name}"),
    )
    one_thread.close()
    names = [layer_file(0), layer_file(1)]
    assert len(document.layers) == len(names)
    assert told == [
        f"open {DOCUMENT_FILE}", f"soon {names[1]}", f"open {names[0]}", f"open {names[1]}",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [DOCUMENT_FILE, layer_file(0), layer_file(1)])
def test_nothing_unverified_is_handed_out(
    document: DocumentCache, staging: Staging, name: str
) -> None:
    folder = Folder(document, "float32")
    folder.changed = name
    with pytest.raises(CorruptArtifact):
        load_document(folder.manifest, folder.open, dtype=torch.float32, staging=staging)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"BF16"', b'"F16" '),
        (b'"keys"', b'"keyz"'),
        (b'"data_offsets":[0,', b'"data_offsets":[2,'),
        (b'{"', b'["'),
    ],
)
def test_a_header_that_describes_something_else_is_corrupt(
    document: DocumentCache, staging: Staging, old: bytes, new: bytes
) -> None:
    folder = Folder(document, "bfloat16")
    name = layer_file(0)
    header = folder.files[name].replace(old, new, 1)
    if old == b'"BF16"':  # of the right size, in another dtype: only its hash tells
        folder.changed = name
    folder.files[name] = header
    with pytest.raises(CorruptArtifact):
        load_document(folder.manifest, folder.open, dtype=torch.float32, staging=staging)


@pytest.mark.parametrize("cut", [0, 4, 40, -1])
def test_a_file_that_is_cut_short_is_corrupt(
    document: DocumentCache, staging: Staging, cut: int
) -> None:
    folder = Folder(document, "float32")
    folder.files[layer_file(1)] = folder.files[layer_file(1)][:cut]
    with pytest.raises(CorruptArtifact):
        load_document(folder.manifest, folder.open, dtype=torch.float32, staging=staging)


def test_copies_between_tiers_are_the_same_and_share_nothing(
    document: DocumentCache, staging: Staging
) -> None:
    transfer = DocumentTransfer(staging)
    for copy in (transfer.to_host(document), transfer.to_device(document)):
        assert_same(copy, document)
        for mine, yours in zip(copy.layers[0].tensors(), document.layers[0].tensors(), strict=True):
            assert not mine.numel() or mine.data_ptr() != yours.data_ptr()

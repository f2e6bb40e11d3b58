"""How fast a stored document comes into memory, beside plain reading of the same bytes.

python -m bench.serving.document_loading --device cuda --folder /dev/shm/docs --cold /tmp/docs

A synthetic document at the shape of Llama 3 8B (or of a small model, for a CPU) is published
through the real storage. Loads are those of a server: read, verified and copied in one pipeline.
Plain reading reads the same files once, by one thread and by as many as the loader has, the better
of both; the ways take turns, each with the page cache cold where `--cold` names a folder on a disk.
From the host's memory the document is copied as a server does, and its first question asked; beside
it, on a GPU, what as many bytes of pinned memory and as much memory for them take.
"""

import argparse
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench import RESULTS
from bench.random_llama import SHAPES, ModelShape
from bench.serving.synthetic import draw_document, draw_model
from engine.decode.sampling import Sampling
from engine.document.artifact import pack
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.loader import LoadedModel
from engine.residents.file_loading import load_document
from engine.residents.staging import Staging
from engine.residents.transfer import DocumentTransfer
from storage.config import StorageConfig
from storage.db.records import ArtifactRecord
from storage.storage import Storage, open_storage
from storage.tenants import Tenants
from training.record import circumstances, drawn, percentiles, write

SMALL = ModelShape(8192, 256, 512, 8, 8, 4)
FINGERPRINT = "bench"
QUESTION = "word " * 60  # about 64 tokens with the template's
BLOCK = 8 << 20
PINNED_BYTES = 256 << 20  # that a plain copy reads again and again
ROOM_TOKENS = 4096  # of the model's context, behind the document


def main() -> None:
    """Measure, print and write the result."""
    options = _options()
    shape = SHAPES["llama3_8b"] if options.device == "cuda" else SMALL
    context = options.tokens + ROOM_TOKENS
    model = draw_model(shape, context, streaming=False, device=options.device)
    document = replace(draw_document(model, options.tokens), text="A synthetic document.")
    staging = Staging(model.device, options.staging_bytes)
    staging.warm_up()
    from_storage: dict[str, Any] = {}
    result = {
        "benchmark": "document_loading",
        **circumstances(options.device, drawn("llama3_8b" if shape is not SMALL else "small", 0)),
        "document_tokens": options.tokens,
        "document_bytes": document.num_bytes,
        "threads": staging.num_threads,
        "staging_bytes": options.staging_bytes,
        "from_storage": from_storage,
    }
    name = f"document_loading_{options.device}"

    def measure_storage(folder: Path, *, is_cold: bool) -> dict[str, Any]:
        return _measure_storage(model, document, staging, folder, options.repeats, is_cold)

    from_storage["page_cache"] = measure_storage(options.folder, is_cold=False)
    write(name, result, options.out)  # in case that a later part does not end
    result["from_host"] = _measure_host(model, document, staging, options.repeats)
    path = write(name, result, options.out)
    if options.cold:
        if options.cold_tokens:
            document = replace(draw_document(model, options.cold_tokens), text=document.text)
        from_storage["cold"] = measure_storage(options.cold, is_cold=True)
        path = write(name, result, options.out)
    print(path.read_text())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, default=131_072)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, required=True, help="for a warm page cache")
    parser.add_argument("--cold", type=Path, help="on a disk, for a cold page cache")
    parser.add_argument(
        "--cold-tokens", type=int, default=0, help="of the document there, where a disk is slow"
    )
    parser.add_argument("--staging-bytes", type=int, default=256 << 20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def _measure_storage(
    model: LoadedModel,
    document: DocumentCache,
    staging: Staging,
    folder: Path,
    repeats: int,
    is_cold: bool,
) -> dict[str, Any]:
    """Publish the document, then load it and read it plainly in turn."""
    with _published(document, str(model.dtype).removeprefix("torch."), folder) as (storage, found):
        [artifact_folder] = (folder / "artifacts").glob(f"{found.document_id}.*")
        files = sorted(path for path in artifact_folder.iterdir() if path.suffix == ".safetensors")
        num_bytes = sum(path.stat().st_size for path in files)

        def load() -> None:
            stored = storage.artifacts.load(found)
            loaded = load_document(
                stored.manifest,
                stored.open,
                dtype=model.dtype,
                staging=staging,
                read_ahead=stored.read_ahead,
            )
            assert loaded.num_bytes == document.num_bytes

        ways: dict[str, Callable[[], object]] = {
            "load": load,
            "plain_one_thread": lambda: _read_plainly(files, 1),
            "plain_threads": lambda: _read_plainly(files, staging.num_threads),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(repeats):
            for name, way in ways.items():
                if is_cold:
                    _drop_from_page_cache(files)
                taken[name].append(_seconds(way))
    seconds = {name: percentiles(samples) for name, samples in taken.items()}
    plain = min(seconds[name]["p50"] for name in ("plain_one_thread", "plain_threads"))
    return {
        "stored_bytes": num_bytes,
        "seconds": seconds,
        "load_gb_per_s": num_bytes / seconds["load"]["p50"] / 1e9,
        "plain_gb_per_s": num_bytes / plain / 1e9,
        "load_of_plain": plain / seconds["load"]["p50"],
    }


@contextmanager
def _published(
    document: DocumentCache, dtype: str, folder: Path
) -> Iterator[tuple[Storage, ArtifactRecord]]:
    """Publish a document in a fresh data folder, which is removed at the end."""
    shutil.rmtree(folder, ignore_errors=True)
    storage = open_storage(StorageConfig(data_dir=folder)).of(FINGERPRINT)
    try:
        original = folder / "original.txt"
        original.write_text("A synthetic document.")
        storage.documents.add(
            Tenants(storage.db).create("bench"),
            original,
            sha256=hashlib.sha256(original.read_bytes()).hexdigest(),
            filename=original.name,
            kind="txt",
            media_type="text/plain",
            num_bytes=original.stat().st_size,
        )
        job = storage.jobs.claim("bench", 3600.0)
        assert job is not None
        manifest, files = pack(document, dtype)
        with storage.artifacts.draft(job.document_id, FINGERPRINT) as draft:
            for name, data in files:
                draft.write(name, data)
            found = draft.publish(
                job,
                manifest,
                kv_bytes=document.kv_bytes,
                num_tokens=document.num_tokens,
                num_pages=1,
                reading_ms=0.0,
            )
        yield storage, found
    finally:
        storage.close()
        shutil.rmtree(folder, ignore_errors=True)


def _measure_host(
    model: LoadedModel, document: DocumentCache, staging: Staging, repeats: int
) -> dict[str, Any]:
    """Copy the document to the host and back; seconds, and those to a question's first token."""
    transfer, engine = DocumentTransfer(staging), Engine(model)
    taken: dict[str, list[float]] = {"to_host": [], "to_device": [], "first_token": []}
    ask = partial(_first_token, engine)
    ask(document)  # libraries and kernels are ready afterwards
    for _ in range(repeats):
        started_s = time.perf_counter()
        host = transfer.to_host(document)
        taken["to_host"].append(time.perf_counter() - started_s)
        started_s = time.perf_counter()
        resident = transfer.to_device(host)
        taken["to_device"].append(time.perf_counter() - started_s)
        ask(resident)
        taken["first_token"].append(time.perf_counter() - started_s)
        assert torch.equal(resident.layers[0].keys, document.layers[0].keys)
        del host, resident
    told: dict[str, Any] = {f"{name}_s": percentiles(samples) for name, samples in taken.items()}
    if model.device.type == "cuda":
        told["plain"] = _copy_plainly(document.num_bytes)
    return told


def _copy_plainly(num_bytes: int) -> dict[str, float]:
    """Seconds to allocate so much memory of the GPU anew, and to fill it from a pinned buffer."""
    buffer = torch.ones(PINNED_BYTES, dtype=torch.uint8, pin_memory=True)
    torch.cuda.empty_cache()

    def allocate() -> list[torch.Tensor]:
        count = -(-num_bytes // PINNED_BYTES)
        return [torch.empty(PINNED_BYTES, dtype=torch.uint8, device="cuda") for _ in range(count)]

    started_s = time.perf_counter()
    parts = allocate()
    allocated_s = time.perf_counter() - started_s

    def copy() -> None:
        for part in parts:
            part.copy_(buffer, non_blocking=True)
        torch.cuda.synchronize()

    copy()
    return {"allocate_s": allocated_s, "pinned_copy_s": _seconds(copy)}


def _first_token(engine: Engine, document: DocumentCache) -> None:
    """Answer a question with one token, at the budget that needs no curve."""
    for _ in engine.answer(document, QUESTION, budget=1.0, sampling=Sampling(max_tokens=1)):
        pass
    if document.layers[0].keys.is_cuda:
        torch.cuda.synchronize()


def _read_plainly(files: list[Path], num_threads: int) -> None:
    """Read files in blocks, and do nothing with them."""
    with ThreadPoolExecutor(num_threads) as threads:
        list(threads.map(_read_file, files))


def _read_file(path: Path) -> None:
    buffer = bytearray(BLOCK)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def _drop_from_page_cache(files: list[Path]) -> None:
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def _seconds(work: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    work()
    return time.perf_counter() - started_s


if __name__ == "__main__":
    main()

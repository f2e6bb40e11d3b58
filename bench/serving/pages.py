"""How fast people's pages are: the dashboard with many documents and answers, and long documents.

python -m bench.serving.pages

A storage is filled with 1,000 documents and 100,000 answers of the last 24 hours. The dashboard's
pages are rendered by the real app, without a network. A text of 400 KB and a PDF of 500 pages are
opened in Chromium over a real port: the time until their first part is seen, and while they are
scrolled from end to end in a second the longest time between two frames.
"""

import argparse
import hashlib
import io
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import uvicorn
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import sync_playwright
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject
from sqlalchemy import insert
from starlette.testclient import TestClient

from app.admin.password import ensure_password
from app.config import ServerConfig
from app.factory import create_app
from app.services.services import Services, make_services
from bench import RESULTS
from bench.random_llama import ModelShape
from bench.serving.synthetic import draw_document, draw_model
from common.passages import plain_structure
from common.status import DocumentStatus
from engine.document.artifact import pack
from engine.document.cache import DocumentCache, Page
from engine.engine import Engine
from storage.config import StorageConfig
from storage.db.tables import Answer, Document, DocumentAnswers, TenantAnswers
from storage.storage import Storage, open_storage
from training.record import circumstances, drawn, percentiles, write

SMALL = ModelShape(8192, 256, 512, 4, 8, 4)
TOKENS = 512
FINGERPRINT = "bench"
KINDS = ("fast", "balanced", "exact", "balanced, quote", "other")
PAGES = ("/admin", "/admin/live", "/admin/documents", "/admin/tenants", "/admin/history")
LONG_CHARS, PAGE_CHARS, NUM_PAGES = 400_000, 1_800, 500
ORIGIN = {"origin": "http://testserver"}
SEEN = """() => {
  const part = document.querySelector(".part:not([hidden] *)");
  const picture = part?.querySelector("img");
  return part && (picture ? picture.complete && picture.naturalWidth : part.innerText.length > 9);
}"""
LOADED = "() => !document.querySelector('.part:empty:not([hidden] *)')"
FRAMES = """async () => {
  const paper = document.getElementById("paper"), gaps = [];
  const end = performance.now() + 1000;
  let last = performance.now();
  for (;;) {
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    gaps.push(now - last);
    last = now;
    if (now >= end) break;
    paper.scrollTop = (1 - (end - now) / 1000) * paper.scrollHeight;
  }
  return gaps.slice(1);
}"""


def main() -> None:
    """Measure, print and write the result."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        storage = open_storage(StorageConfig(data_dir=Path(folder))).of(FINGERPRINT)
        model = draw_model(SMALL, 2 * TOKENS, streaming=False, device="cpu")
        cache = replace(draw_document(model, TOKENS), text="A synthetic document.")
        tenant_id = storage.tenants.create("bench")
        _fill(storage, tenant_id, options.documents, options.answers)
        long = {
            "text_400_kb": _add(storage, tenant_id, _long_text(cache), "long.md", "text/markdown"),
            "pdf_500_pages": _add(
                storage, tenant_id, _long_pdf(cache), "long.pdf", "application/pdf"
            ),
        }
        key, _ = storage.keys.create(tenant_id, "bench")
        services = make_services(ServerConfig(), Path(folder), storage, Engine(model))
        password = ensure_password(Path(folder)) or ""
        rendered = _render(services, password, options.repeats)
        shown = _show(services, key, long, options.repeats)
        storage.close()
    result = {
        "benchmark": "pages",
        **circumstances("cpu", drawn("small", 0)),
        "documents": options.documents,
        "answers": options.answers,
        "rendered_ms": rendered,
        "shown": shown,
    }
    print(write("pages", result, options.out).read_text())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def _fill(storage: Storage, tenant_id: UUID, num_documents: int, num_answers: int) -> None:
    """Put rows of documents and answers into the database, as a day of questions leaves them."""
    numbers = random.Random(0)
    with storage.db.session() as session:
        now = storage.db.now(session)
        documents = [
            {
                "id": uuid4(), "tenant_id": tenant_id, "sha256": f"{index:064x}",
                "blob_key": str(index), "filename": f"Document {index}.pdf",
                "media_type": "application/pdf", "kind": "pdf", "num_bytes": 100_000,
                "uploader": "", "status": DocumentStatus.FAILED, "error_code": "document_rejected",
                "error_message": "The file is damaged.",
                "created_at": now - timedelta(minutes=index),
            }
            for index in range(num_documents)
        ]  # fmt: skip
        session.execute(insert(Document), documents)
        answers = [
            {
                "id": uuid4(), "tenant_id": tenant_id,
                "document_id": numbers.choice(documents)["id"],
                "created_at": now - timedelta(seconds=numbers.uniform(0, 86_000)), "status": "ok",
                "cache_hit": numbers.random() < 0.9, "budget_requested": 0.15,
                "budget_loaded": 0.15 * numbers.random(), "num_tokens": numbers.randint(1, 128),
                "first_token_ms": numbers.lognormvariate(4, 1), "saved_ms": 1000.0,
                "total_ms": numbers.lognormvariate(6, 1), "kind": numbers.choice(KINDS),
                "queue_ms": numbers.lognormvariate(0, 1), "decode_ms": numbers.lognormvariate(6, 1),
                "kv_bytes_read": numbers.randint(10**6, 10**8), "kv_bytes_full": 10**9,
                "document_tokens": 16_384,
            }
            for _ in range(num_answers)
        ]  # fmt: skip
        for start in range(0, num_answers, 5000):
            session.execute(insert(Answer), answers[start : start + 5000])
        sums = {
            "num_answers": num_answers, "hits": num_answers * 9 // 10, "budget_requested": 1.0,
            "budget_loaded": 1.0, "first_token_ms": 1.0, "saved_ms": 1.0,
        }  # fmt: skip
        session.execute(insert(TenantAnswers), [{"tenant_id": tenant_id, **sums}])
        each = {name: value / num_documents for name, value in sums.items()}
        each |= {"num_answers": num_answers // num_documents, "hits": 1}
        rows = [{"document_id": document["id"], **each} for document in documents]
        session.execute(insert(DocumentAnswers), rows)


def _long_text(cache: DocumentCache) -> DocumentCache:
    paragraph = "The harbour keeps its lights until the last boat is in. " * 8
    text = "\n\n".join(f"{number}. {paragraph}" for number in range(LONG_CHARS // len(paragraph)))
    return replace(cache, text=text, structure=plain_structure(text))


def _long_pdf(cache: DocumentCache) -> DocumentCache:
    page = ("The harbour keeps its lights until the last boat is in.\n" * 40)[:PAGE_CHARS]
    text = "\n\n".join([page] * NUM_PAGES)
    width = PAGE_CHARS + 2
    pages = tuple(
        Page(number + 1, number * width, min((number + 1) * width, len(text)))
        for number in range(NUM_PAGES)
    )
    return replace(cache, text=text, pages=pages, structure=plain_structure(text))


def _pdf(num_pages: int) -> bytes:
    """A PDF whose pages have lines of text."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): font})
    line = b"(The harbour keeps its lights until the last boat is in.) Tj T* "
    for _ in range(num_pages):
        page = writer.add_blank_page(612, 792)
        stream = DecodedStreamObject()
        stream.set_data(b"BT /F1 12 Tf 16 TL 72 720 Td " + line * 40 + b"ET")
        page[NameObject("/Contents")] = writer._add_object(stream)
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def _add(storage: Storage, tenant_id: UUID, cache: DocumentCache, name: str, kind: str) -> str:
    """Store a document that was read; return its id."""
    original = _pdf(NUM_PAGES) if kind.endswith("pdf") else cache.text.encode()
    with tempfile.NamedTemporaryFile() as file:
        file.write(original)
        file.flush()
        document, _ = storage.documents.add(
            tenant_id,
            Path(file.name),
            sha256=hashlib.sha256(name.encode()).hexdigest(),
            filename=name,
            kind="pdf" if kind.endswith("pdf") else "txt",
            media_type=kind,
            num_bytes=len(original),
        )
    job = storage.jobs.claim("bench", 60.0)
    assert job is not None
    manifest, files = pack(cache, "float32")
    with storage.artifacts.draft(document.id, FINGERPRINT) as draft:
        for file_name, data in files:
            draft.write(file_name, data)
        draft.publish(
            job, manifest, kv_bytes=cache.kv_bytes, num_tokens=cache.num_tokens,
            num_pages=len(cache.pages), reading_ms=1000.0,
        )  # fmt: skip
    return str(document.id)


def _render(services: Services, password: str, repeats: int) -> dict[str, Any]:
    """Milliseconds in which the app renders pages of the dashboard."""
    browser = TestClient(create_app(services), follow_redirects=False)
    browser.post("/admin/login", data={"password": password}, headers=ORIGIN)
    found = {}
    for path in PAGES:
        times = []
        for _ in range(repeats + 1):
            began_s = time.perf_counter()
            assert browser.get(path).status_code == 200, path
            times.append(1000 * (time.perf_counter() - began_s))
        found[path] = percentiles(times[1:])
    return found


def _show(services: Services, key: str, long: dict[str, str], repeats: int) -> dict[str, Any]:
    """Milliseconds until long documents are painted, and between frames while they scroll."""
    program = shutil.which("chromium")
    assert program is not None, "Chromium is needed for this"
    found: dict[str, Any] = {}
    with _serving(services) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        page.fill("#key", key)
        page.press("#key", "Enter")
        page.wait_for_selector("#list")
        for name, document_id in long.items():
            times = [_open(page, f"{address}/room/{document_id}") for _ in range(repeats)]
            page.wait_for_function(LOADED)
            gaps = page.evaluate(FRAMES)
            found[name] = {
                "seen_ms": percentiles(times),
                "longest_frame_ms": max(gaps),
                "median_frame_ms": statistics.median(gaps),
                "frames": len(gaps),
            }
        browser.close()
    return found


def _open(page: BrowserPage, address: str) -> float:
    """Open a document's page; return the milliseconds until its first part is seen."""
    page.goto(address, wait_until="commit")
    page.wait_for_function(SEEN)
    seen_ms: float = page.evaluate("performance.now()")
    return seen_ms


@contextmanager
def _serving(services: Services) -> Iterator[str]:
    config = uvicorn.Config(create_app(services), port=0, log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


if __name__ == "__main__":
    main()

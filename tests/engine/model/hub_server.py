"""A Hugging Face hub on this machine, as far as fetching a model asks for it."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MISSING = {"RepoNotFound": 401, "GatedRepo": 403, "RevisionNotFound": 404}


class Hub:
    """Its repositories, and what was fetched from them.

    Attributes:
        repositories: by id, by revision: (commit, folder).
        fetched: names of the files that were sent.
        gated: ids that ask for a licence.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, tuple[str, Path]]] = {}
        self.fetched: list[str] = []
        self.gated: set[str] = set()

    def add(self, name: str, folder: Path, revision: str = "main") -> str:
        """Publish a folder; return its commit."""
        commit = hashlib.sha1(f"{name} {revision} {folder}".encode()).hexdigest()
        revisions = self.repositories.setdefault(name, {})
        revisions[revision] = revisions[commit] = (commit, folder)
        return commit


@contextmanager
def serve_hub(hub: Hub) -> Iterator[str]:
    """Serve a hub while the block runs; the block gets its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            parts = self.path.partition("?")[0].strip("/").split("/")
            if parts[:2] == ["api", "models"]:
                self._api("/".join(parts[2:4]), parts[4:])
            else:
                self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

        def _api(self, name: str, rest: list[str]) -> None:
            revision = rest[1] if rest else "main"
            if (found := self._found(name, revision)) is None:
                return
            commit, folder = found
            files = sorted(
                str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
            )
            if rest and rest[0] == "tree":
                self._send(json.dumps([self._entry(folder, file) for file in files]).encode())
                return
            siblings = [{"rfilename": file} for file in files]
            body = {"id": name, "modelId": name, "sha": commit, "siblings": siblings, "tags": []}
            self._send(json.dumps(body | {"private": False, "downloads": 0}).encode())

        def _entry(self, folder: Path, file: str) -> dict[str, object]:
            data = (folder / file).read_bytes()
            oid = hashlib.sha1(data).hexdigest()
            return {"type": "file", "path": file, "size": len(data), "oid": oid}

        def _file(self, name: str, revision: str, file: str) -> None:
            if (found := self._found(name, revision)) is None:
                return
            commit, folder = found
            path = folder / file
            if not path.is_file():
                self._refuse(404, "EntryNotFound")
                return
            if self.command == "GET":
                hub.fetched.append(file)
            data = path.read_bytes()
            etag = hashlib.sha1(data).hexdigest()
            self._send(data, {"X-Repo-Commit": commit, "ETag": f'"{etag}"'})

        def _found(self, name: str, revision: str) -> tuple[str, Path] | None:
            if name in hub.gated:
                return self._refuse(403, "GatedRepo")
            if name not in hub.repositories:
                return self._refuse(401, "RepoNotFound")
            if revision not in hub.repositories[name]:
                return self._refuse(404, "RevisionNotFound")
            return hub.repositories[name][revision]

        def _refuse(self, status: int, code: str) -> None:
            self._send(b"{}", {"X-Error-Code": code, "X-Error-Message": code}, status)

        def _send(self, data: bytes, headers: dict[str, str] | None = None, ok: int = 200) -> None:
            self.send_response(ok)
            for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()

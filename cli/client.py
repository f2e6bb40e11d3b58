"""A small client of the HTTP API, for the commands."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import httpx

from common.errors import LecternError

CONNECT_S = 5.0
READ_S = 600.0  # a streamed answer may wait in the queue for minutes
PAGE_SIZE = 100
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
Event = tuple[str, dict[str, Any]]


class Refused(LecternError):
    """The server refused the request, or answered something that is not its API.

    Attributes:
        status: of its response; 0 if it was none of its own refusals.
    """

    code = "refused"

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class NoServer(LecternError):
    """No server answers at the address."""

    code = "no_server"


class Client:
    """Sends requests to one server with one API key; a context manager.

    Every method raises Refused with the server's message, or NoServer.

    Args:
        url: the server's address, such as http://127.0.0.1:8080.
        key: an API key; None for routes that need none.
        transport: replaces the network in tests.
        timeout_s: longest wait in seconds for a part of a response.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        transport: httpx.BaseTransport | None = None,
        timeout_s: float = READ_S,
    ) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._url = url
        self._http = httpx.Client(
            base_url=url,
            headers=headers,
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
            transport=transport,
            trust_env=_host(url) not in LOOPBACK,  # no proxy for this machine itself
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_reason: object) -> None:
        self._http.close()

    def upload(self, filename: str, file: IO[bytes]) -> dict[str, Any]:
        """Send a file and return its document.

        Args:
            filename: a label for the document.
            file: the bytes, as an open file.
        Returns: the document's body; the same bytes again give the same document.
        """
        return self._json("POST", "/documents", files={"file": (filename, file)})

    def upload_path(self, path: Path) -> dict[str, Any]:
        """Send the file at `path` under its own name, and return its document."""
        with path.open("rb") as file:
            return self.upload(path.name, file)

    def document(self, document_id: str) -> dict[str, Any]:
        """Return the body of a document."""
        return self._json("GET", f"/documents/{document_id}")

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the bodies of the documents that a name or the beginning of an id stands for."""
        found: list[dict[str, Any]] = self._json("GET", "/documents", params={"name": name})["data"]
        return found

    def change(self, document_id: str, **fields: Any) -> dict[str, Any]:
        """Change a document's `filename`, or whether it is `pinned`, and return its body."""
        return self._json("PATCH", f"/documents/{document_id}", json=fields)

    def delete(self, document_id: str) -> None:
        """Delete a document and everything that was made of it."""
        self._send("DELETE", f"/documents/{document_id}")

    def act(self, document_id: str, action: str) -> dict[str, Any]:
        """Do something to a document, and return its body.

        Args:
            action: "retry", "cancel", "prefetch" or "evict".
        """
        return self._json("POST", f"/documents/{document_id}/{action}")

    def text(self, document_id: str, page: int | None = None) -> dict[str, Any]:
        """Return the text that was read from a document, or from one page of it."""
        only = {} if page is None else {"page": str(page)}
        return self._json("GET", f"/documents/{document_id}/text", params=only)

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield the bodies of all documents, newest first, fetched page by page."""
        after: dict[str, str] = {}
        while True:
            page = self._json("GET", "/documents", params={"limit": str(PAGE_SIZE), **after})
            yield from page["data"]
            if not page["has_more"]:
                return
            after = {"after": page["last_id"]}

    def events(self, document_id: str) -> Iterator[dict[str, Any]]:
        """Yield the progress of a document until it is ready or has failed."""
        for name, data in self._stream("GET", f"/documents/{document_id}/events"):
            if name == "error":
                raise Refused(_message(data))
            yield data

    def ask(self, document_id: str, question: str, **options: Any) -> dict[str, Any]:
        """Ask a question and return the body of the whole answer.

        Args:
            options: further fields of the HTTP body, such as `budget` and `max_tokens`; those that
                are None are not sent.
        """
        body = {"question": question, **_not_none(options)}
        return self._json("POST", f"/documents/{document_id}/ask", json=body)

    def ask_streaming(self, document_id: str, question: str, **options: Any) -> Iterator[Event]:
        """Ask a question; yield ("piece", {"text"}) as text comes, then ("answer", the whole body).

        What a model marks as thinking comes first, as ("thinking", {"text"}).

        Args:
            options: as for `ask`.
        """
        body = {"question": question, "stream": True, **_not_none(options)}
        for name, data in self._stream("POST", f"/documents/{document_id}/ask", json=body):
            if name == "error":
                raise Refused(_message(data))
            yield name, data

    def _json(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        return _parse(self._send(method, path, **request).text)

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **request)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        _raise_for_error(response)
        return response

    def _stream(self, method: str, path: str, **request: Any) -> Iterator[Event]:
        try:
            with self._http.stream(method, path, **request) as response:
                if response.is_error:
                    response.read()
                _raise_for_error(response)
                yield from _events(response.iter_lines())
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.HTTPError) -> LecternError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return NoServer(f"No server answers at {self._url}. Start one with `lectern serve`.")
        if isinstance(error, httpx.TimeoutException):
            return NoServer(f"The server at {self._url} did not answer in time.")
        return NoServer(f"The connection to {self._url} broke off.")


def _host(url: str) -> str:
    """Return the host of an address. Raises: NoServer if the address is malformed."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise NoServer(
            f"'{url}' is not the address of a server; an example is http://127.0.0.1:8080."
        )
    return parsed.host


def _not_none(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _raise_for_error(response: httpx.Response) -> None:
    """Raise Refused with the server's message if the response is an error."""
    if response.is_error:
        hint = " Set LECTERN_API_KEY." if response.status_code == 401 else ""
        raise Refused(_message(_parse(response.text)) + hint, status=response.status_code)


def _parse(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise Refused("What answers at this address is not a Lectern server.")
    return parsed


def _message(body: Mapping[str, Any]) -> str:
    """Return the message of an error body."""
    error = body.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return str(message) if message else "The server refused without saying why."


def _events(lines: Iterable[str]) -> Iterator[Event]:
    """Parse server-sent events into names and JSON data; ignore comments and unknown fields."""
    name, data = "message", []
    for line in lines:
        field, _, value = line.partition(":")
        if field == "event":
            name = value.strip()
        elif field == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            yield name, _parse("\n".join(data))
            name, data = "message", []

"""Settings of the server: its address, and limits on everything that a client can send."""

import ipaddress
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, MinLen, Predicate
from pydantic import SecretStr

from engine.document.budget import TOLERANCE

MIB = 1024 * 1024


def are_networks(text: str) -> bool:
    """Return whether a text is a list of IP addresses and networks, separated by commas."""
    try:
        return bool([ipaddress.ip_network(part.strip()) for part in text.split(",")])
    except ValueError:
        return not text.strip()


@dataclass(frozen=True)
class ServerConfig:
    """Address and limits of the server.

    Attributes:
        port: the port to listen on; 0 chooses a free one.
        max_upload_bytes: largest upload in bytes; a larger one gets status 413.
        max_question_chars: longest question in characters.
        max_answer_tokens: longest answer in tokens, whatever a request asks for.
        max_thinking_tokens: longest thinking before an answer in tokens, for models that mark it;
            then the model is made to answer.
        sampling: how tokens are chosen where a request does not say: "greedy", or as the "model"
            asks for in its generation_config.json.
        answer_mode: how questions are answered that do not say: "free", or in "quote" mode; "auto"
            is "quote" for the bundled reader and "free" for any other model.
        stop_repetition: whether an answer that repeats itself is ended, where a request does not
            say.
        auto_tolerance: share of the answers at the budget "auto" that may be others than at
            `exact`, where a request does not say.
        concurrent_questions: questions that are answered at the same time, one token of each in a
            forward pass.
        queued_questions: questions that may wait; further ones get status 429, or 503 where those
            that wait are others'.
        question_timeout_s: seconds from a question's arrival to the end of its answer.
        memory_share: of the GPU's memory that is used, weights and all else included; on a CPU, of
            what programs can have, for documents alone. None: 0.9 of a GPU, 0.5 on a CPU.
        device_cache_bytes: bytes of documents on the device that answers, instead of the share.
        host_cache_bytes: bytes of documents in the host's memory behind it; None: half of what
            programs can have there behind a GPU, else none.
        staging_bytes: pinned memory on the way between the host and a GPU.
        embedded_worker: whether the server also reads documents, in its own process.
        worker_process: whether it starts a process for that instead, which shares nothing with it
            but the data folder and the database.
        trusted_proxies: addresses and networks, separated by commas, whose `X-Forwarded-For` and
            `X-Forwarded-Proto` headers are believed; empty for none.
        max_connections: open connections; the system's limit on open files may lower it.
        connections_per_address: of these, connections of one address on which no request with a
            valid API key is under way; another one closes the oldest of them.
        requests_per_key: requests that one key may have under way; further ones get status 429.
        event_streams: event streams of documents, of all keys.
        event_streams_per_key: of these, those of one key; a further one gets status 429.
        uploads: uploads under way, of all keys.
        uploads_per_key: of these, those of one key; a further one gets status 429.
        inspections: processes that look into uploaded files at the same time. A single key gets all
            but one of them.
        inspection_memory_bytes: memory of all these processes together.
        metrics_token: what opens `/metrics`, as a bearer token; None for no such token.
        metrics_loopback: whether `/metrics` is open to programs on this machine, without a token.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Ge(0), Le(65535)] = 8080
    max_upload_bytes: Annotated[int, Gt(0)] = 64 * MIB
    max_question_chars: Annotated[int, Gt(0)] = 8_000
    max_answer_tokens: Annotated[int, Gt(0)] = 512
    max_thinking_tokens: Annotated[int, Ge(0)] = 2048
    sampling: Literal["greedy", "model"] = "greedy"
    answer_mode: Literal["auto", "free", "quote"] = "auto"
    stop_repetition: bool = True
    auto_tolerance: Annotated[float, Ge(0), Le(1)] = TOLERANCE
    concurrent_questions: Annotated[int, Gt(0)] = 64
    queued_questions: Annotated[int, Ge(0)] = 192
    question_timeout_s: Annotated[float, Gt(0)] = 300.0
    memory_share: Annotated[float, Gt(0), Le(1)] | None = None
    device_cache_bytes: Annotated[int, Gt(0)] | None = None
    host_cache_bytes: Annotated[int, Ge(0)] | None = None
    staging_bytes: Annotated[int, Gt(0)] = 256 * MIB
    embedded_worker: bool = True
    worker_process: bool = False
    trusted_proxies: Annotated[str, Predicate(are_networks)] = ""
    max_connections: Annotated[int, Gt(0)] = 4096
    connections_per_address: Annotated[int, Gt(0)] = 2048
    requests_per_key: Annotated[int, Gt(0)] = 100
    event_streams: Annotated[int, Gt(0)] = 200
    event_streams_per_key: Annotated[int, Gt(0)] = 50
    uploads: Annotated[int, Gt(0)] = 32
    uploads_per_key: Annotated[int, Gt(0)] = 8
    inspections: Annotated[int, Gt(0)] = 2
    inspection_memory_bytes: Annotated[int, Gt(0)] = 512 * MIB
    metrics_token: Annotated[SecretStr, MinLen(16)] | None = None
    metrics_loopback: bool = False

    def proxies(self) -> tuple[str, ...]:
        """Return the addresses and networks of proxies that are trusted."""
        return tuple(filter(None, map(str.strip, self.trusted_proxies.split(","))))

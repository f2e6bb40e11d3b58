"""The metrics of a worker in a process of its own, at an address of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

from cli.listener import CannotServe
from common.spans import SpanListener, ignore_spans
from workers.reading_metrics import ReadingMetrics


@contextmanager
def counted_readings(host: str, port: int) -> Iterator[SpanListener]:
    """Count what a worker reads, and show it at `http://host:port/metrics`, while the block runs.

    Args:
        host: the address to listen on; whoever can connect to it sees the metrics.
        port: 0 for no counting.
    Raises: CannotServe if the address cannot be listened on.
    """
    if port == 0:
        yield ignore_spans
        return
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    metrics = ReadingMetrics(registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise CannotServe(f"Metrics cannot be shown at {host}:{port}: {error.strerror}.") from error
    try:
        yield metrics.observe_span
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

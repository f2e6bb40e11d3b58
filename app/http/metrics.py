"""The route of metrics, which only the operator's token opens, or this machine if that is set.

An API key opens it to nobody: keys belong to tenants, and metrics are of all of them together.
"""

import hmac
import ipaddress

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from prometheus_client.exposition import choose_encoder

from app.config import ServerConfig
from app.services.services import ServicesDep
from common.errors import MetricsClosed, MetricsTokenWrong

router = APIRouter(tags=["health"])
CLOSED = (
    "This server's metrics are closed. Its operator opens them with LECTERN_SERVER__METRICS_TOKEN, "
    "or to programs on the same machine with LECTERN_SERVER__METRICS_LOOPBACK=true."
)
WRONG_TOKEN = (
    "Send the token of LECTERN_SERVER__METRICS_TOKEN as `Authorization: Bearer ...`; API keys do "
    "not open the metrics."
)


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, services: ServicesDep) -> Response:
    """Show the metrics of this process and its installation in Prometheus' format.

    No API key opens them: the operator's token does, or a setting for programs on the same machine.
    """
    host = request.client.host if request.client else ""
    check_scraper(services.config, host, request.headers.get("authorization", ""))
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    body: bytes = await run_in_threadpool(encode, services.metrics.registry)
    return Response(body, headers={"content-type": media_type})


def check_scraper(config: ServerConfig, host: str, authorization: str) -> None:
    """Return if a caller may see the metrics.

    Args:
        host: the caller's address, or the one that a trusted proxy names.
        authorization: the request's header; empty for none.
    Raises: MetricsClosed, MetricsTokenWrong.
    """
    if config.metrics_loopback and _is_loopback(host):
        return
    if config.metrics_token is None:
        raise MetricsClosed(CLOSED)
    scheme, _, given = authorization.partition(" ")
    expected = config.metrics_token.get_secret_value()
    is_right = hmac.compare_digest(given.strip().encode(), expected.encode())
    if scheme.lower() != "bearer" or not is_right:
        raise MetricsTokenWrong(WRONG_TOKEN)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Render the dashboard's pages from templates, with security headers."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi.responses import FileResponse, HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from common.format import (
    NO_VALUE,
    format_age,
    format_bytes,
    format_count,
    format_duration,
    format_share,
)

HERE = Path(__file__).parent
STATIC = {
    "admin.css": "text/css",
    "admin.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    # With no-referrer, browsers would send forms with `Origin: null`.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def render(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a template as a page, or as a part of one; all values are escaped."""
    page = _environment().get_template(template).render(**values)
    return HTMLResponse(page, status, HEADERS)


def static_file(name: str) -> Response | None:
    """Return the style sheet, script or icon of this name; None for any other name."""
    if name not in STATIC:
        return None
    headers = {**HEADERS, "cache-control": "max-age=86400"}
    return FileResponse(HERE / "static" / name, media_type=STATIC[name], headers=headers)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        bytes=format_bytes,
        duration=format_duration,
        share=format_share,
        count=format_count,
        age=format_age,
    )
    environment.globals["no_value"] = NO_VALUE
    environment.globals["static"] = _static_url
    return environment


@cache
def _static_url(name: str) -> str:
    content = (HERE / "static" / name).read_bytes()
    return f"/admin/static/{name}?v={sha256(content).hexdigest()[:12]}"

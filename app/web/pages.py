"""Render pages from templates, with security headers, and serve the files that they need."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.responses import FileResponse, HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException

from common.format import (
    NO_VALUE,
    format_age,
    format_bytes,
    format_count,
    format_duration,
    format_share,
)

HERE = Path(__file__).parent
CSS, SCRIPT, ICON = "text/css", "text/javascript", "image/svg+xml"
STATIC = {
    "lectern.css": CSS,
    "admin.css": CSS,
    "room.css": CSS,
    "uPlot.min.css": CSS,
    "admin.js": SCRIPT,
    "common.js": SCRIPT,
    "documents.js": SCRIPT,
    "reader.js": SCRIPT,
    "htmx.min.js": SCRIPT,
    "uPlot.iife.min.js": SCRIPT,
    "icon.svg": ICON,
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


router = APIRouter(include_in_schema=False)


def render(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a template as a page, or as a part of one; all values are escaped."""
    page = _environment().get_template(template).render(**values)
    return HTMLResponse(page, status, HEADERS)


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """Serve a style sheet, a script or the icon."""
    if name not in STATIC:
        raise HTTPException(404)
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
    return f"/static/{name}?v={sha256(content).hexdigest()[:12]}"

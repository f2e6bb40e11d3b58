"""Rendering: templates, their words, and the headers that fence every page in."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi.responses import FileResponse, HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app.admin import format as words

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
    # Not no-referrer: with that, browsers send forms with `Origin: null`.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def render(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page or a part of one; every value is escaped."""
    page = _environment().get_template(template).render(**values)
    return HTMLResponse(page, status, HEADERS)


def static_file(name: str) -> Response | None:
    """Return one of our own files; None for any other name."""
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
        bytes=words.as_bytes,
        duration=words.as_duration,
        share=words.as_share,
        count=words.as_count,
        age=words.as_age,
    )
    environment.globals["static"] = _static_url
    return environment


@cache
def _static_url(name: str) -> str:
    content = (HERE / "static" / name).read_bytes()
    return f"/admin/static/{name}?v={sha256(content).hexdigest()[:12]}"

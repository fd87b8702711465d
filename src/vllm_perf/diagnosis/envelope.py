# SPDX-License-Identifier: Apache-2.0
"""Read an error body, whichever of the many envelopes it comes in."""

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Shape = Literal["empty", "html", "text", "string", "flat", "nested", "detail", "null", "choices", "json"]

_TITLE = re.compile(r"<title[^>]*>(.*?)</title>|<h1[^>]*>(.*?)</h1>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_LINE_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What an error body says.

    ``shape``: ``string`` is ``{"error": "Unauthorized"}``, ``flat`` is ``{"object": "error", "message": …}``,
    ``nested`` is ``{"error": {"message": …}}``, ``detail`` is FastAPI's ``{"detail": …}``, ``choices`` is a
    completion. ``code`` and ``param`` are text whatever their JSON type was; JSON null and "None" are "".
    """

    shape: Shape
    message: str = ""
    type: str = ""
    code: str = ""
    param: str = ""

    @property
    def is_error(self) -> bool:
        """Tell whether the body is an error object."""
        return self.shape in ("string", "flat", "nested", "detail")

    @property
    def words(self) -> str:
        """Return message, type and code in lower case, for matching."""
        return f"{self.message} {self.type} {self.code}".lower()

    def line(self) -> str:
        """Return the body as one line of evidence."""
        if self.shape == "empty":
            return "an empty body"
        tags = " ".join(f"{name}={text}" for name, text in (("type", self.type), ("code", self.code)) if text)
        return " ".join(part for part in (_one_line(self.message), f"({tags})" if tags else "") if part)


def read_envelope(body: bytes, headers: Mapping[str, str]) -> Envelope:
    """Read ``body``; a body that is none of the known shapes comes back as ``text`` or ``json``."""
    text = body.decode("utf-8", errors="replace").strip()
    if not text:
        return Envelope(shape="empty")
    if _is_html(text, headers):
        return Envelope(shape="html", message=_page_title(text))
    try:
        data = json.loads(text)
    except ValueError:
        return Envelope(shape="text", message=text)
    return read_object(data)


def read_object(data: Any) -> Envelope:
    """Read an error that is already parsed: a response body or one event of a stream."""
    if data is None:
        return Envelope(shape="null", message="null")
    if isinstance(data, list) and len(data) == 1:
        return read_object(data[0])
    if not isinstance(data, dict):
        return Envelope(shape="json", message=json.dumps(data))
    error = data.get("error")
    if isinstance(error, str) and error:
        return Envelope(
            shape="string", message=error, type=_text(data.get("type")), code=_text(data.get("code"))
        )
    if isinstance(error, dict):
        return _read_fields("nested", error)
    if isinstance(data.get("choices"), list):
        return Envelope(shape="choices", message=json.dumps(data))
    if data.get("object") == "error" or ("message" in data and ("type" in data or "code" in data)):
        return _read_fields("flat", data)
    if "detail" in data:
        return Envelope(shape="detail", message=_text(data["detail"]))
    return Envelope(shape="json", message=json.dumps(data, ensure_ascii=False))


def _read_fields(shape: Shape, fields: Mapping[str, Any]) -> Envelope:
    message = _text(fields.get("message")) or json.dumps(dict(fields), ensure_ascii=False)
    texts = {name: _text(fields.get(name)) for name in ("type", "code", "param")}
    return Envelope(shape=shape, message=message, **texts)


def _text(value: Any) -> str:
    if value is None or value == "None":
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_html(text: str, headers: Mapping[str, str]) -> bool:
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    return "text/html" in kind.lower() or text[:200].lstrip().lower().startswith(
        ("<!doctype", "<html", "<head")
    )


def _page_title(page: str) -> str:
    found = _TITLE.search(page)
    title = (found[1] or found[2] or "") if found else _TAG.sub(" ", page)
    return _one_line(html.unescape(_TAG.sub(" ", title)))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE_CHARACTERS else line[:_LINE_CHARACTERS] + "…"

"""Descriptions in a small subset of Markdown as HTML: paragraphs, lists, code."""

from __future__ import annotations

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe


def prose(text: str) -> SafeString:
    """A description as HTML: paragraphs, lists of ``*`` and code in backticks."""
    html = []
    for block in text.strip().split("\n\n"):
        if block.startswith("* "):
            items = [_inline(item) for item in block.removeprefix("* ").split("\n* ")]
            html.append("<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>")
        else:
            html.append(f"<p>{_inline(block)}</p>")
    return mark_safe("".join(html))  # every part is escaped


def _inline(text: str) -> str:
    parts = str(escape(text)).split("`")
    return "".join(
        f"<code>{part}</code>" if at % 2 and at < len(parts) - 1 else part
        for at, part in enumerate(parts)
    )

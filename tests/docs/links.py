"""Links of an HTML folder that lead nowhere, anchors included; what lies outside the folder is not looked at."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and tag != "base":
                self.links.append(value)


def read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def dead_links(folder: Path) -> list[str]:
    """``page -> link`` for each link inside the folder that has no target."""
    pages = {path.resolve(): read(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            lost = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
            if lost or not target.exists():
                dead.append(f"{path.relative_to(folder)} -> {link}")
    return dead


def outside_resources(folder: Path) -> list[str]:
    """Scripts, styles and pictures a page would fetch from other sites."""
    fetched = re.compile(r'<script (?:defer )?src="http|<img src="http|rel="stylesheet" href="http')
    pages = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    found = {path: fetched.search(path.read_text(encoding="utf-8")) for path in pages}
    return [f"{path.relative_to(folder)}: {match[0]}" for path, match in found.items() if match]

"""What mkdocs runs while it builds the site: nothing that a page shows may come from another server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

_FETCHED = re.compile(
    r"<(?:script|img|link|iframe|source|audio|video)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)"
)
_LINKS_ONLY = re.compile(r"<link\b[^>]*\brel=[\"']?(?:canonical|prev|next|alternate)")


def fetched_assets(html: str) -> list[str]:
    """The addresses that a browser would fetch to show this page."""
    return [found[1] for found in _FETCHED.finditer(html) if not _LINKS_ONLY.match(found[0])]


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuses a page that needs another server: the site has to work without a network."""
    assets = fetched_assets(output)
    if assets:
        raise PluginError(f"{page.file.src_uri} fetches {', '.join(assets)}: put it into docs/ and link it from there")
    return output


def on_post_build(config: Any, **_: Any) -> None:
    """Says where the site is."""
    print(f"The site: {Path(config.site_dir) / 'index.html'}")

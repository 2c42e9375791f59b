"""Hooks that mkdocs runs while it builds the site: nothing that a page shows may come from another server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

_FETCHED = re.compile(
    r"<(?:script|img|link|iframe|source|audio|video)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)"
)
_LINKS_ONLY = re.compile(r"<link\b[^>]*\brel=[\"']?(?:canonical|prev|next|alternate)")


NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Adds a page for each notebook, as it is stored: with what it printed and drew."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        text = notebook_page(json.loads(path.read_text(encoding="utf-8")))
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
    return files


def notebook_page(notebook: dict[str, Any]) -> str:
    """A stored notebook as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            pictures = [kind for kind in ("image/png", "image/jpeg") if kind in data]
            for kind in pictures:
                code = "".join("".join(data[kind]).split())
                parts.append(f'<img src="data:{kind};base64,{code}" alt="what the cell above draws">')
            text = "".join(output.get("text", data.get("text/plain", "")))
            if text and not pictures:
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


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
    """Prints where the site is."""
    print(f"The site: {Path(config.site_dir) / 'index.html'}")

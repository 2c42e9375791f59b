"""Hooks that run while mkdocs builds the site.

Notebooks become pages; nothing that a page shows may come from another server; no line of code is cut off; the
reference has each parameter by itself.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import griffe
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

_FETCHED = re.compile(
    r"<(?:script|img|link|iframe|source|audio|video)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)"
)
_CODE = re.compile(r"<pre\b[^>]*>(.*?)</pre>", re.DOTALL)
_TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)
_CELL = re.compile(r"<td>(.*?)</td>", re.DOTALL)
LONGEST_LINE = 90
"""Characters of a line of code that a page shows on a screen of 1,280 pixels."""
_LINKS_ONLY = re.compile(r"<link\b[^>]*\brel=[\"']?(?:canonical|prev|next|alternate)")


NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Adds a page for each notebook, as it is stored: with what it printed and drew."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        text = notebook_page(json.loads(path.read_text(encoding="utf-8")))
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leads the links to stored notebooks, which work in the repository, to their pages."""
    return re.sub(r"\]\(\.\./notebooks/(\w+)\.ipynb\)", r"](notebooks/\1.md)", markdown)


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
                shown = "\n".join(wrapped for line in text.rstrip().splitlines() for wrapped in fitting(line))
                parts.append(f"```text\n{shown}\n```")
    return "\n\n".join(parts) + "\n"


def fitting(line: str) -> list[str]:
    """A line that was printed, in as many lines as the page has room for."""
    if len(line) <= LONGEST_LINE:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, LONGEST_LINE, initial_indent="", subsequent_indent=f"{indent}  ")


def fetched_assets(html: str) -> list[str]:
    """The addresses that a browser would fetch to show this page."""
    return [found[1] for found in _FETCHED.finditer(html) if not _LINKS_ONLY.match(found[0])]


def long_lines(html: str) -> list[str]:
    """The lines of code on a page that are cut off at its right margin."""
    blocks = (unescape(re.sub(r"<[^>]+>", "", found[1])) for found in _CODE.finditer(html))
    return [line for block in blocks for line in block.splitlines() if len(line) > LONGEST_LINE]


def untyped_parameters(html: str) -> list[str]:
    """The parameters that a page of the reference shows without a type: those that the signature doesn't have, too."""
    tables = [table for table in _TABLE.findall(html) if "<th>Default</th>" in table]
    rows = [_CELL.findall(row) for table in tables for row in table.split("<tr")[2:]]
    names = [[unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in rows]
    return [name for name, type_, *_ in names if not type_]


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuses a page that needs another server, code that is cut off, and parameters without a type.

    The site has to work without a network.
    """
    assets = fetched_assets(output)
    if assets:
        raise PluginError(f"{page.file.src_uri} fetches {', '.join(assets)}: put it into docs/ and link it from there")
    long = long_lines(output)
    if long:
        lines = "".join(f"\n  {line}" for line in long)
        raise PluginError(f"{page.file.src_uri} cuts off code of more than {LONGEST_LINE} characters:{lines}")
    untyped = untyped_parameters(output)
    if untyped:
        raise PluginError(f"{page.file.src_uri} has parameters without a type: {', '.join(untyped)}")
    return output


def on_post_build(config: Any, **_: Any) -> None:
    """Prints where the site is."""
    print(f"The site: {Path(config.site_dir) / 'index.html'}")


_ARGUMENTS = re.compile(r"(?<=^Args:\n).*?(?=\n\n\S|\Z)", re.MULTILINE | re.DOTALL)
_TOGETHER = re.compile(r"^( +)(\w+(?:, \w+)+): (.*(?:\n\1 +\S.*)*)", re.MULTILINE)


class PlainParameters(griffe.Extension):
    """Has the reference list each parameter by itself, with its type and its default.

    A dataset's options that a signature has as ``**options: Unpack[…]`` become parameters, as `with_options` makes them
    at run time; and what a docstring says of several arguments at once is said of each.
    """

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        base, known = pkg["datasets.base.ImageDataset"].parameters, pkg["datasets.options"]
        for value in _members(pkg):
            if value.docstring is not None:
                value.docstring.value = one_by_one(value.docstring.value)
            if value.is_function:
                for options in [one for one in value.parameters if str(one.annotation).startswith("Unpack[")]:
                    listed = known.members.get(str(options.annotation)[len("Unpack[") : -1])
                    if listed is None:
                        continue
                    value.parameters._params.remove(options)
                    for name in _keys(listed, known):
                        if name not in value.parameters:
                            value.parameters.add(base[name])


def one_by_one(docstring: str) -> str:
    """A docstring whose section of arguments has a line, or several, for each of them."""

    def each(found: re.Match[str]) -> str:
        return "\n".join(f"{found[1]}{name}: {found[3]}" for name in found[2].split(", "))

    return _ARGUMENTS.sub(lambda section: _TOGETHER.sub(each, section[0]), docstring)


def _keys(options: griffe.Class, module: griffe.Module) -> list[str]:
    """The keys of a TypedDict and of those that it derives from, in their order."""
    here = [module[name] for name in map(str, options.bases) if name in module.members and not module[name].is_alias]
    inherited = [name for base in here for name in _keys(base, module)]
    return [*inherited, *options.attributes]


def _members(value: Any) -> Iterator[Any]:
    for member in value.members.values():
        if not member.is_alias:
            yield member
            yield from _members(member)

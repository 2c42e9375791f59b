"""The C sources: files that use each other one way, and lines that fit."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "fastpipe/core/src"

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_INCLUDED = re.compile(r'#include "([^"]+)"')
_DEFINED = re.compile(
    r"^(?!static\b|typedef\b|extern\b)[A-Za-z][^;{}()=]*?\b(fpc_\w+)(?:\([^;{}]*\)\s*\{|\s*=)", re.MULTILINE
)


def code(path: Path) -> str:
    return _COMMENT.sub(" ", path.read_text(encoding="utf-8"))


def test_headers_include_no_circle() -> None:
    headers = {path.name: set(_INCLUDED.findall(code(path))) for path in SOURCES.rglob("*.h")}
    assert len([*TopologicalSorter(headers).static_order()]) >= len(headers)


def test_files_include_no_circle() -> None:
    """A file stands above those whose headers it includes."""
    files = {path.stem for path in SOURCES.rglob("*.c")}
    included = {path.stem: set(_INCLUDED.findall(code(path))) for path in SOURCES.rglob("*.c")}
    above = {
        name: {header.removesuffix(".h") for header in headers} & files - {name} for name, headers in included.items()
    }
    assert "rgbx_pad" in above["operations"]
    assert "packed_head" in above["packed"]
    assert len([*TopologicalSorter(above).static_order()]) == len(files)


def test_files_call_no_circle() -> None:
    """A file uses another one where it names what that one defines, itself or in a body that it includes."""
    bodies = {
        path.name: code(path)
        for path in [*SOURCES.rglob("*.c"), *SOURCES.rglob("*_plain.h"), *SOURCES.rglob("*_simd.h")]
    }
    owners = {name: file for file, text in bodies.items() if file.endswith(".c") for name in _DEFINED.findall(text)}
    assert owners["fpc_run"] == "run.c"
    assert owners["fpc_png_codec"] == "png.c"
    uses: dict[str, set[str]] = {}
    for file in (name for name in bodies if name.endswith(".c")):
        text = bodies[file] + "".join(bodies.get(name, "") for name in _INCLUDED.findall(bodies[file]))
        uses[file] = {owners[name] for name in re.findall(r"\bfpc_\w+", text) if name in owners} - {file}
    assert "stage.c" in uses["warp.c"]
    assert "huffman.c" in uses["isa_avx2.c"]
    assert len([*TopologicalSorter(uses).static_order()]) == len(uses)


def test_no_file_is_long_and_no_line_wide() -> None:
    for path in [*SOURCES.rglob("*.[ch]")]:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 500, path.name
        assert [line for line in lines if len(line) > 120] == [], path.name


def test_comments_name_files_that_exist() -> None:
    """Beside other libraries' files, which have names of theirs."""
    others = re.compile(r"j[a-z]+\.[ch]|_imaging\.c|enough\.c|[A-Z]\w+\.[ch]")
    for path in SOURCES.rglob("*.[ch]"):
        named = {
            name
            for comment in _COMMENT.findall(path.read_text(encoding="utf-8"))
            for name in re.findall(r"(?<![\w<>*.])\w+\.[ch]\b", comment)
            if not others.fullmatch(name)
        }
        assert {name for name in named if not any(SOURCES.rglob(name))} == set(), path.name

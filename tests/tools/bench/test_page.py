"""The page and the pictures."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from fastpipe.errors import FastpipeError
from fastpipe.reporting.plots import check_matplotlib, save, to_svg
from fastpipe.tools.bench.report import draw, make_page

VOID = {"meta", "br", "img", "hr", "link", "input"}


pytest.importorskip("matplotlib", reason="plots need the extra [bench]")


class _Balance(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        assert not any(name in ("src", "href") and value for name, value in attrs), (tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(page: str) -> _Balance:
    parser = _Balance()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


@pytest.fixture(scope="module")
def page(make_record) -> str:
    return make_page(make_record())


def test_the_page_is_whole_and_needs_nothing_else(page: str) -> None:
    found = parsed(page)
    assert page.startswith("<!doctype html>")
    assert found.tags.count("svg") == 2
    assert "script" not in found.tags
    assert not re.search(r"https?://(?!www\.w3\.org/)", page)
    assert len(found.ids) == len(set(found.ids))
    for text in ("jpeg readers", "cv2", "3.12.1", "the reader 'x' doesn't load here", "2.50", "2,000"):
        assert text in found.text
    assert "fastpipe bench 'my photos/<train>' --workers=2" in found.text
    assert "fastpipe configure --set=jpeg=cv2" in found.text


def test_what_comes_from_outside_is_escaped(page: str) -> None:
    for raw in ("<b>Pillow", "<train>", "<CPU>", "& Co", "& so on"):
        assert raw not in page
    found = parsed(page).text
    assert "not <b>Pillow's</b> pixels & so on" in found
    assert "Made <CPU> & Co" in found


def test_light_and_dark(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    figures = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert "currentColor" in figures
    assert "var(--faint)" in figures
    for ink in ("#000000", "#1f2328", "#c9ced6", "#ffffff"):
        assert ink not in figures


def test_without_workers_or_pipelines(make_record) -> None:
    record = replace(make_record(workers=0, rounds=1), pipelines=(), choices={}, notes=())
    assert parsed(make_page(record)).tags.count("svg") == 1


def test_the_pictures(make_record, tmp_path: Path) -> None:
    figures = draw(make_record())
    assert set(figures) == {"readers-jpeg", "pipelines-jpeg"}
    for name, figure in figures.items():
        save(figure, tmp_path / f"{name}.png")
        with Image.open(tmp_path / f"{name}.png") as image:
            assert image.format == "PNG"
            assert image.width > 800
            # Something is drawn, on white.
            assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
            assert len(image.convert("RGB").getcolors(1 << 20) or []) > 50
        svg = to_svg(figure, 'a "title" <x>')
        assert 'aria-label="a &quot;title&quot; &lt;x&gt;"' in svg
        assert "<metadata" not in svg
        assert ("train, uint8" if name.startswith("pipe") else "cv2 (chosen)") in svg


def test_drawing_leaves_matplotlib_as_it_was(make_record) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    draw(make_record())
    assert dict(mpl.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_a_missing_matplotlib_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(FastpipeError, match=r"pip install 'fastpipe\[bench\]'"):
        check_matplotlib()

"""The page."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fastpipe.errors import FastpipeError
from fastpipe.reporting.plots import check_matplotlib

VOID = {"meta", "br", "img", "hr", "link", "input"}


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
def page(make_result) -> str:
    return make_result().to_html()


def test_the_page_is_whole_and_needs_nothing_else(page: str) -> None:
    found = parsed(page)
    assert page.startswith("<!doctype html>")
    assert "script" not in found.tags
    assert not re.search(r"https?://(?!www\.w3\.org/)", page)
    assert len(found.ids) == len(set(found.ids))
    for text in ("cv2", "3.12.1", "the reader 'x' doesn't load here", "2,000"):
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


def test_without_workers(make_result) -> None:
    result = replace(make_result(workers=0, rounds=1), choices={}, notes=())
    assert "cv2" in parsed(result.to_html()).text


def test_a_missing_matplotlib_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(FastpipeError, match=r"pip install matplotlib"):
        check_matplotlib()

"""Options that all datasets share: declared once, and shown, typed and checked in each class."""

from __future__ import annotations

import inspect
import pydoc
from pathlib import Path
from typing import Any

import corpus
import pytest

import fastpipe
from fastpipe.datasets.options import ImageOptions, ReadOptions, SampleOptions

DECLARED = {
    "ImageFolder": ReadOptions,  # `loader` is a parameter of its own, by position as torchvision's
    "ImageList": ImageOptions,
    "ImageShards": ImageOptions,
    "ImageTable": ImageOptions,
    "ArrayFolder": SampleOptions,
    "ArrayList": SampleOptions,
    "SampleDataset": ImageOptions,
    "CocoDetection": ImageOptions,
    "VOCDetection": ImageOptions,
    "VOCSegmentation": ImageOptions,
}


def parameters(kind: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(kind).parameters)


def test_types_are_those_of_the_base() -> None:
    base = parameters(fastpipe.datasets.ImageDataset)
    keywords = {name: one for name, one in base.items() if one.kind is one.KEYWORD_ONLY}
    declared = {name: one.__forward_arg__ for name, one in ImageOptions.__annotations__.items()}
    assert declared == {name: one.annotation for name, one in keywords.items()}


@pytest.mark.parametrize("name", DECLARED)
def test_signatures_list_each_option_with_its_default(name: str) -> None:
    kind = getattr(fastpipe, name)
    base, own = parameters(fastpipe.datasets.ImageDataset), parameters(kind)
    assert not any(one.kind is one.VAR_KEYWORD for one in own.values())
    for option in DECLARED[name].__annotations__:
        assert own[option] == base[option]
    shown = pydoc.render_doc(kind)
    assert "max_bad_fraction: 'float' = 0.1" in shown
    assert "**options" not in shown.partition("Args:")[0]


def test_an_unknown_option_is_refused_by_the_class_that_got_it(tmp_path: Path) -> None:
    corpus.write_folder(tmp_path / "root")
    with pytest.raises(TypeError, match=r"ImageFolder\(\) got an unexpected keyword argument 'sede'"):
        fastpipe.ImageFolder(tmp_path / "root", sede=0)
    with pytest.raises(TypeError, match=r"ArrayFolder\(\) got an unexpected keyword argument 'reader'"):
        fastpipe.ArrayFolder(tmp_path / "root", reader="pil")  # arrays are read by no reader

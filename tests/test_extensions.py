"""Extensions of the user's that return nonsense: an error, or a warning for a reader, that names the extension."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from PIL import Image

import fastpipe
from fastpipe import ops, readers
from fastpipe import transforms as T
from fastpipe.errors import DatasetError, FastpipeWarning, PlanError, StoreError
from fastpipe.readers import registry
from fastpipe.sources import Entry

HEIGHT, WIDTH = 60, 80


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "a.jpg").write_bytes(corpus.jpeg(HEIGHT, WIDTH))
    return tmp_path


def of_draw(result: object) -> Any:
    class Own(torch.nn.Module):
        def forward(self, image: Any) -> Any:
            return image

        def draw(self, shape: Any, generators: Any) -> object:
            return result

    return Own()


NO_STEPS = [None, "text", 5, {}, iter(())]
NO_STEP = [["a"], [1], (None,), (T.ToTensor,), (ops.HFlip(), "b")]


def uses(own: Any, root: Path) -> Iterator[Any]:
    """All that calls a ``draw``: a dataset, a container of transforms, several views, and a call on an image."""
    with Image.open(root / "class" / "a.jpg") as image:
        image.load()
    yield lambda: fastpipe.ImageFolder(root, T.Compose([own, T.ToTensor()]))[0]
    yield lambda: fastpipe.ImageFolder(root, T.Compose([T.RandomApply([own], p=1.0), T.ToTensor()]))[0]
    yield lambda: fastpipe.ImageFolder(root, fastpipe.MultiView(T.Compose([own, T.ToTensor()]), 2))[0]
    yield lambda: T.Compose([own, T.ToTensor()])(image)


@pytest.mark.parametrize("result", [*NO_STEPS, *NO_STEP], ids=lambda result: type(result).__name__)
def test_a_draw_that_returns_no_steps_is_named(root: Path, result: object) -> None:
    *planned, on_an_image = uses(of_draw(result), root)
    for use in planned:
        with pytest.raises(PlanError, match=r"Own\.draw returned .*(return a tuple of steps|a step is an operation)"):
            use()
    assert on_an_image().shape == (3, HEIGHT, WIDTH)  # by `forward`, which needs no draw


@pytest.mark.parametrize("result", [(), [], (ops.HFlip(),), [ops.HFlip()]], ids=repr)
def test_a_draw_that_returns_steps_runs(root: Path, result: Any) -> None:
    with Image.open(root / "class" / "a.jpg") as image:
        turned = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if result else image.copy()
    expected = torch.from_numpy(np.array(turned)).permute(2, 0, 1) / 255
    for number, use in enumerate(uses(of_draw(result), root)):
        found = use() if number == 3 else use()[0]
        for one in found if number == 2 else [found]:
            torch.testing.assert_close(one, expected, rtol=0, atol=0)


def test_an_inherited_transform_with_a_draw_of_its_own_is_named(root: Path) -> None:
    class Nonsense(T.RandomHorizontalFlip):
        def draw(self, shape: Any, generators: Any) -> Any:
            return "nonsense"

    with pytest.raises(PlanError, match=r"Nonsense\.draw returned 'nonsense'"):
        fastpipe.ImageFolder(root, T.Compose([Nonsense(), T.ToTensor()]))[0]


@pytest.mark.parametrize(
    "result", [None, "x", np.zeros((3, 4, 3)), np.zeros(5, np.uint8)], ids=lambda one: str(type(one))
)
def test_a_step_that_returns_no_pixels_is_named(root: Path, result: object) -> None:
    @dataclass(frozen=True)
    class Strange:
        def apply(self, image: Any) -> object:
            return result

        def output_shape(self, shape: Any) -> Any:
            return shape

    with pytest.raises(PlanError, match=r"Strange\.apply returned"):
        fastpipe.ImageFolder(root, T.Compose([of_draw((Strange(),)), T.ToTensor()]))[0]


def test_a_step_that_tells_no_shape_is_named(root: Path) -> None:
    @dataclass(frozen=True)
    class Strange:
        def apply(self, image: Any) -> Any:
            return image

        def output_shape(self, shape: Any) -> Any:
            return (1, 2)

    with pytest.raises(PlanError, match=r"Strange\.output_shape, a step of Own\.draw, returned \(1, 2\)"):
        fastpipe.ImageFolder(root, T.Compose([of_draw((Strange(),)), T.RandomCrop(20), T.ToTensor()]))[0]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (None, "gave NoneType"),
        ([[1]], "gave list"),
        (np.zeros((10, 10, 3), np.uint8), r"gave uint8 \(10, 10, 3\), not uint8 \(60, 80, 3\)"),
        (np.zeros((HEIGHT, WIDTH, 3), np.float32), "gave float32"),
        (np.zeros((HEIGHT, WIDTH, 4), np.uint8), "gave uint8 .*4"),
        (np.zeros((HEIGHT, WIDTH), np.uint8), "gave uint8"),
        (np.zeros((WIDTH, HEIGHT, 3), np.uint8), "gave uint8"),
    ],
    ids=["None", "list", "size", "floats", "alpha", "gray", "turned"],
)
def test_a_reader_that_returns_nonsense_is_named_and_pillow_reads(
    root: Path, result: object, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "class" / "a.jpg"

    class Wrong(readers.Reader):
        name, formats = "wrong", frozenset({"JPEG"})

        def decode(self, data: bytes) -> Any:
            return result

    monkeypatch.setitem(registry._loaded, "wrong", Wrong())
    with Image.open(path) as image:
        expected = np.asarray(image)
    with pytest.warns(FastpipeWarning, match=f"the reader 'wrong' {said}.*{path.name}; Pillow read it"):
        np.testing.assert_array_equal(readers.read_image(path, reader="wrong"), expected)
    with pytest.warns(FastpipeWarning, match="the reader 'wrong' gave"):
        sample = fastpipe.ImageFolder(root, reader="wrong")[0][0]
    np.testing.assert_array_equal(np.asarray(sample), expected)


def test_a_reader_may_return_a_view(
    root: Path, recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "class" / "a.jpg"
    with Image.open(path) as image:
        expected = np.asarray(image)

    class Views(readers.Reader):
        name, formats = "views", frozenset({"JPEG"})

        def decode(self, data: bytes) -> Any:
            return np.ascontiguousarray(expected[:, ::-1])[:, ::-1]

    monkeypatch.setitem(registry._loaded, "views", Views())
    np.testing.assert_array_equal(readers.read_image(path, reader="views"), expected)
    sample = fastpipe.ImageFolder(root, T.Compose([T.CenterCrop(20), T.PILToTensor()]), reader="views")[0][0]
    np.testing.assert_array_equal(sample.permute(1, 2, 0).numpy(), expected[20:40, 30:50])
    assert not [one for one in recwarn if issubclass(one.category, FastpipeWarning)]


@pytest.mark.parametrize("result", [None, "a.jpg", 5, ("a.jpg",), (5, 1), (None, 1)], ids=repr)
def test_a_sample_that_is_no_pair_is_named(result: object) -> None:
    class Own(fastpipe.datasets.ImageDataset):
        def __len__(self) -> int:
            return 1

        def sample(self, index: int) -> Any:
            return result

    with pytest.raises(DatasetError, match=r"Own\.sample\(0\) returned .*: return a path and a target"):
        Own(T.ToTensor())[0]


@pytest.mark.parametrize("result", [None, "text", 5, [1]], ids=repr)
def test_a_source_that_returns_no_bytes_is_named(result: object) -> None:
    class Own(fastpipe.ByteSource):
        name = "own://photos"

        def list(self) -> Any:
            return [Entry("class/a.jpg")]

        def read(self, key: str, offset: int = 0, length: int = -1) -> Any:
            return result

    with pytest.raises(StoreError, match=r"Own\.read returned (NoneType|str|int|list), where bytes are read"):
        fastpipe.ImageFolder(Own(), index=None)[0]

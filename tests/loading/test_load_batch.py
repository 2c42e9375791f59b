"""`load_batch`: bytes and paths from anywhere, through the dataset's engine."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
from pathlib import Path

import corpus
import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torchvision_here import torchvision

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import BadFilesError, DatasetError, DecodeError, FastpipeWarning, PlanError

NUMBERS = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}


def steps(module):
    crop = [module.RandomResizedCrop(24), module.RandomHorizontalFlip(), module.ColorJitter(0.3, 0.2)]
    return module.Compose([*crop, module.ToTensor(), module.Normalize(**NUMBERS), module.RandomErasing(0.5)])


def plain(module):
    return module.Compose([module.Resize(32), module.CenterCrop((24, 20)), module.PILToTensor()])


def files() -> list[bytes]:
    """JPEGs of several kinds, one of them gray and one of one pixel, a PNG, and one that the core leaves to others."""
    some = [corpus.jpeg(40 + 9 * n, 70 - 3 * n, kind, seed=n) for n, kind in enumerate(corpus.SUBSAMPLINGS)]
    cmyk = corpus.save(Image.fromarray(corpus.photo(30, 50)).convert("CMYK"), "JPEG")
    return [*some, corpus.jpeg(33, 47, "gray"), corpus.jpeg(1, 1), corpus.save(corpus.photo(45, 31), "PNG"), cmyk]


@pytest.fixture
def mixed(tmp_path: Path) -> list[object]:
    """`files`, every second of them on the disk."""
    items: list[object] = []
    for number, data in enumerate(files()):
        path = tmp_path / f"{number}.img"
        path.write_bytes(data)
        kinds = [data, path, bytearray(data), str(path), memoryview(data)]
        items.append(kinds[number % len(kinds)])
    return items


def opened(data: bytes, upright: bool = False) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    return (ImageOps.exif_transpose(image) if upright else image).convert("RGB")


def states():
    return torch.get_rng_state(), random.getstate()


def same_states(one, other) -> bool:
    return torch.equal(one[0], other[0]) and one[1] == other[1]


@pytest.mark.parametrize("make", [steps, plain])
@pytest.mark.parametrize("threads", [None, 0, 1, 3])
def test_pixels_draws_and_states_are_torchvisions(mixed, make, threads):
    torch.manual_seed(3)
    random.seed(3)
    transform = make(torchvision.transforms)
    expected = torch.stack([transform(opened(data)) for data in files()])
    behind = states()
    torch.manual_seed(3)
    random.seed(3)
    found = fastpipe.load_batch(mixed, make(T), threads=threads)
    assert torch.equal(found, expected)
    assert same_states(states(), behind)


def test_more_items_than_are_read_at_once():
    items = [corpus.jpeg(20 + n % 7, 30, seed=n % 5) for n in range(150)]
    torch.manual_seed(1)
    expected = torch.cat([fastpipe.load_batch([item], steps(T)) for item in items])
    for threads in (1, 5):
        torch.manual_seed(1)
        assert torch.equal(fastpipe.load_batch(iter(items), steps(T), threads=threads), expected)


def test_a_generator_of_ones_own(mixed):
    torch.manual_seed(5)
    expected = fastpipe.load_batch(mixed, steps(T))
    behind = torch.get_rng_state()
    before = states()
    generator = torch.Generator().manual_seed(5)
    assert torch.equal(fastpipe.load_batch(mixed, steps(T), generator=generator), expected)
    assert torch.equal(generator.get_state(), behind)
    assert same_states(states(), before)


def test_the_samples_of_a_dataset(root):
    data = fastpipe.ImageFolder(root, steps(T), apply_exif=True)
    torch.manual_seed(0)
    expected = torch.stack([data[index][0] for index in range(len(data))])
    torch.manual_seed(0)
    found = fastpipe.load_batch([path for path, _ in data.samples], steps(T), apply_exif=True)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif(orientation):
    exif = corpus.exif(orientation)
    data = corpus.save(corpus.photo(40, 60), "JPEG", exif=exif)
    for upright in (False, True):
        expected = plain(torchvision.transforms)(opened(data, upright))
        assert torch.equal(fastpipe.load_batch([data], plain(T), apply_exif=upright)[0], expected)


def layouts(count: int, height: int, width: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Memory of several strides for a batch, all of it 77."""

    def full(*shape: int) -> torch.Tensor:
        return torch.full(shape, 77, dtype=dtype)

    return {
        "contiguous": full(count, 3, height, width),
        "channels last": full(count, height, width, 3).permute(0, 3, 1, 2),
        "every second": full(2 * count, 3, height, width)[::2],
        "part of larger images": full(count, 3, height + 5, width + 3)[:, :, 2:-3, 1:-2],
        "columns first": full(count, 3, width, height).transpose(2, 3),
        "BGR": full(count, 4, height, width)[:, 1:],
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("layout", layouts(1, 1, 1, torch.uint8))
def test_out_of_any_strides(mixed, layout, dtype):
    torch.manual_seed(2)
    expected = fastpipe.load_batch(mixed, steps(T)).to(dtype)
    out = layouts(len(mixed), 24, 24, dtype)[layout]
    torch.manual_seed(2)
    found = fastpipe.load_batch(mixed, steps(T), out=out)
    assert found is out
    assert torch.equal(out, expected)


@pytest.mark.parametrize("layout", layouts(1, 1, 1, torch.uint8))
def test_out_of_uint8(mixed, layout):
    out = layouts(len(mixed), 24, 20, torch.uint8)[layout]
    around = out._base if out._base is not None else out
    rest = around.clone()
    fastpipe.load_batch(mixed, plain(T), out=out)
    assert torch.equal(out, fastpipe.load_batch(mixed, plain(T)))
    rest.as_strided(out.shape, out.stride(), out.storage_offset()).copy_(out)
    assert torch.equal(around, rest)  # nothing was written beside it


def with_bad(items: list[object]) -> list[object]:
    """With three that are bad: at 0, 4 and the end."""
    cut = files()[0]
    return [b"no picture", *items[:3], cut[: len(cut) // 2], *items[3:], "/nowhere/at/all.jpg"]


def test_bad_items_raise(mixed):
    items = with_bad(mixed)
    with pytest.raises(DecodeError, match=r"items\[0\]"):
        fastpipe.load_batch(items, plain(T))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fastpipe.load_batch(items[-3:], plain(T))


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("with_out", [False, True])
def test_bad_items_are_left_out(mixed, threads, with_out):
    """Draws are those of all that have a header, as of a dataset with on_error='skip'."""
    items, bad = with_bad(mixed), []
    out = torch.empty(len(items), 3, 24, 24) if with_out else None
    torch.manual_seed(8)
    found = fastpipe.load_batch(items, steps(T), on_error=bad.append, threads=threads, out=out)
    assert [one.index for one in bad] == [0, 4, len(items) - 1]
    assert bad[0].path == "items[0]"
    assert bad[-1].path == items[-1]
    assert all(one.reason for one in bad)
    torch.manual_seed(8)
    transform, expected = steps(torchvision.transforms), []
    sound = [*files()[:3], files()[0], *files()[3:]]  # that is cut off has its header
    for number, data in enumerate(sound):
        image = transform(opened(data))
        if number != 3:
            expected.append(image)
    assert torch.equal(found, torch.stack(expected))
    if out is not None:
        assert found.data_ptr() == out.data_ptr()
    torch.manual_seed(8)
    with pytest.warns(FastpipeWarning, match=rf"3 of {len(items)} items .* the first: items\[0\]"):
        assert torch.equal(fastpipe.load_batch(items, steps(T), on_error="skip", threads=threads), found)


def test_others_in_their_place(mixed):
    items, fallback = with_bad(mixed), corpus.jpeg(50, 40, seed=9)
    found = fastpipe.load_batch(items, plain(T), on_error=lambda bad: b"bad, too" if bad.reason == "" else fallback)
    good = [fallback if n in (0, 4, len(items) - 1) else item for n, item in enumerate(items)]
    assert torch.equal(found, fastpipe.load_batch(good, plain(T)))
    answers = iter([b"bad", "/nowhere.jpg", fallback])
    found = fastpipe.load_batch([b""], plain(T), on_error=lambda _: next(answers))
    assert torch.equal(found, fastpipe.load_batch([fallback], plain(T)))
    with pytest.raises(BadFilesError, match="32 items in a row"):
        fastpipe.load_batch([b""], plain(T), on_error=lambda _: b"bad")
    with pytest.raises(DatasetError, match=r"returned for items\[0\] is a int"):
        fastpipe.load_batch([b""], plain(T), on_error=lambda _: 3)


def test_nothing_is_left():
    bad = []
    with pytest.raises(BadFilesError, match=r"all 2 items are bad, the first: items\[0\]"):
        fastpipe.load_batch([b"", b"x"], plain(T), on_error=bad.append)
    assert len(bad) == 2


def test_foreign_transforms_run_one_by_one(mixed):
    """They draw in torchvision's order, between the draws of fastpipe's."""

    class Noise(torch.nn.Module):
        def forward(self, image):
            return image + torch.rand(1)

    torch.manual_seed(4)
    transform = torchvision.transforms.Compose([*steps(torchvision.transforms).transforms, Noise()])
    expected = torch.stack([transform(opened(data)) for data in files()])
    torch.manual_seed(4)
    ours = T.Compose([*steps(T).transforms, Noise()])
    out = torch.empty_like(expected, dtype=torch.float64)
    assert torch.equal(fastpipe.load_batch(mixed, ours, out=out), expected.double())
    with pytest.raises(DatasetError, match="generator= can't reach Noise"):
        fastpipe.load_batch(mixed, ours, generator=torch.Generator())


def test_views(mixed):
    views = fastpipe.MultiView([plain(T), T.Compose([T.Resize((8, 9)), T.ToTensor()])])
    found = fastpipe.load_batch(mixed, views)
    assert [tuple(view.shape) for view in found] == [(len(mixed), 3, 24, 20), (len(mixed), 3, 8, 9)]
    assert torch.equal(found[0], fastpipe.load_batch(mixed, plain(T)))
    with pytest.raises(DatasetError, match="several tensors"):
        fastpipe.load_batch(mixed, views, out=torch.empty(len(mixed), 3, 24, 20))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"items": []}, DatasetError, "no items"),
        ({"items": [np.zeros(3)]}, DatasetError, r"items\[0\] is a ndarray"),
        ({"threads": -1}, DatasetError, "threads=-1"),
        ({"on_error": "replace"}, DatasetError, "on_error='replace'"),
        ({"out": torch.empty(2, 3, 24, 20, dtype=torch.uint8)}, DatasetError, r"for 1 items give a tensor \(1, C"),
        ({"out": torch.empty(3, 24, 20, dtype=torch.uint8)}, DatasetError, "give a tensor"),
        ({"out": torch.empty(1, 1, 24, 20, dtype=torch.uint8).expand(1, 3, 24, 20)}, DatasetError, "repeated"),
        ({"out": torch.empty(1, 3, 24, 20, device="meta")}, DatasetError, "on meta"),
        ({"out": torch.empty(1, 3, 24, 20)}, DatasetError, "transform gives torch.uint8"),
        ({"out": torch.empty(1, 3, 20, 24, dtype=torch.uint8)}, DatasetError, r"gives torch.uint8 \(1, 3, 24, 20\)"),
        ({"out": np.empty((1, 3, 24, 20), np.uint8)}, DatasetError, "out is a ndarray: give a tensor"),
        ({"generator": 3}, DatasetError, "generator is a int: give a torch.Generator"),
        ({"transform": T.Resize(3)}, PlanError, "end the transform in ToTensor"),
    ],
)
def test_what_is_refused(options, error, words):
    arguments = {"items": [corpus.jpeg(30, 40)], "transform": plain(T), **options}
    with pytest.raises(error, match=words):
        fastpipe.load_batch(arguments.pop("items"), arguments.pop("transform"), **arguments)


def test_images_of_several_shapes():
    with pytest.raises(RuntimeError, match="several shapes"):
        fastpipe.load_batch([corpus.jpeg(30, 40), corpus.jpeg(40, 40)], T.ToTensor())


def test_an_image_that_is_too_large():
    item = corpus.jpeg(30, 40)
    with pytest.raises(DecodeError, match="max_pixels"):
        fastpipe.load_batch([item], plain(T), max_pixels=100)


def test_within_ray(tmp_path):
    """The page's program, as a program: Ray sends the functions of ``__main__``, and imports others in its workers."""
    pytest.importorskip("ray")
    (tmp_path / "train").mkdir()
    for number in range(8):
        (tmp_path / "train" / f"{number}.jpg").write_bytes(corpus.jpeg(50, 60 + number))
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "bytes_from_anywhere.md").read_text(encoding="utf-8")
    code = page.partition('```python title="with_ray.py"\n')[2].partition("```")[0]
    (tmp_path / "with_ray.py").write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "with_ray.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["torch.Size([8, 3, 224, 224])"], done.stderr


def test_items_of_before_are_not_touched_by_the_next_call():
    items = [corpus.jpeg(30, 40, seed=n) for n in range(2)]
    first = fastpipe.load_batch(items[:1], plain(T))
    kept = first.clone()
    fastpipe.load_batch(items[1:], plain(T))
    assert torch.equal(first, kept)

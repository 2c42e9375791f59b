"""``torchvision.io``'s images without pixels are as with them: values, types, strides, errors, end states."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
import torchvision_io_here
from deep_png import GRAY, RGB, file_of, samples_of
from hooks.tensor_images import (
    FILES,
    KINDS,
    MARKS,
    PHOTO,
    F,
    as_tensor,
    opened,
    outcome,
    plainly_opened,
    shown,
    tio,
    tv_tensors,
    v2,
)
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision_here import module

import fastpipe
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import OtherVersionError
from fastpipe.hooks.torch.tensors import with_ordinary_tensors
from fastpipe.hooks.torchvision import pending_tensors, tensor_files
from fastpipe.plain_way import plainly
from fastpipe.program import pending_work

pytestmark = MARKS


@pytest.mark.needs_core
def test_an_image_without_pixels() -> None:
    image = opened()
    assert fastpipe.is_pending(image)
    assert (image.shape, image.dtype, image.device.type, image.stride(), len(image)) == (
        (3, 97, 131),
        torch.uint8,
        "cpu",
        (1, 393, 3),
        3,
    )
    assert isinstance(image, torch.Tensor)
    assert (image.itemsize, image.nbytes) == (1, 3 * 97 * 131)
    assert not image.requires_grad
    assert fastpipe.is_pending(image), "asking for its shape makes no pixels"
    assert fastpipe.is_pending(image)
    assert image.sum() == plainly_opened().sum()
    assert not fastpipe.is_pending(image)
    assert not fastpipe.is_pending(image)
    assert type(image) is torch.Tensor


MODES = ("UNCHANGED", "RGB", "GRAY", "GRAY_ALPHA", "RGBA")


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_are_torchvisions(name: str, tmp_path: Path) -> None:
    """Same pixels, types and strides, or the same error, at the same call."""
    data = FILES[name]
    if name not in corpus.sound_files() or name == "png-too-few-rows":  # which Pillow reads
        torchvision_io_here.skip_where_torchvision_dies_of(data)
    # Of palettes in other modes torchvision's memory is as it was.
    for mode, turned in itertools.product(("RGB",) if "palette" in name else MODES, (False, True)):
        arguments = {"mode": mode, "apply_exif_orientation": turned}
        with plainly():
            expected = outcome(lambda arguments=arguments: opened(data, **arguments))
        image, error = None, None
        try:
            image = opened(data, **arguments)
        except Exception as raised:
            error = type(raised), str(raised)
        assert (shown(image) if error is None else error) == expected, (mode, turned)
    path = tmp_path / "file"
    path.write_bytes(data)
    for function in (tio.decode_image, tio.read_image):
        with plainly():
            expected = outcome(lambda function=function: function(str(path), "RGB"))
        assert outcome(lambda function=function: function(str(path), "RGB")) == expected
        assert outcome(lambda function=function: function(path, "RGB")) == expected
    with plainly():
        expected = outcome(lambda: tio.decode_jpeg(as_tensor(data)))
    assert outcome(lambda: tio.decode_jpeg(as_tensor(data))) == expected


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.needs_core
def test_kinds_that_have_no_pixels_yet(name: str) -> None:
    image = opened(KINDS[name])
    assert fastpipe.is_pending(image)
    assert shown(image) == shown(plainly_opened(KINDS[name]))


@pytest.mark.needs_core
def test_chroma_that_older_versions_of_torchvision_dont_smooth_is_left_to_them() -> None:
    assert not fastpipe.is_pending(opened(corpus.jpeg(201, 251, "440")))
    assert fastpipe.is_pending(opened(corpus.jpeg(201, 251, "422")))
    told = {reason for site in fastpipe.report().sites for reason in site.left}
    assert [reason for reason in told if "4:4:0" in reason]


@pytest.mark.needs_core
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_files_that_the_core_refuses_after_all(orientation: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision decodes them, upright; recorded steps go on from there."""
    image = Image.fromarray(corpus.photo(40, 57)).convert(mode)
    data = corpus.save(image, "JPEG", exif=corpus.exif(orientation))
    changes = [torch.Tensor.clone, v2.Resize(24), v2.functional.horizontal_flip]
    pending = [opened(data, apply_exif_orientation=True) for _ in changes]
    assert all(map(fastpipe.is_pending, pending))
    monkeypatch.setattr("fastpipe.program.encoded_image.decode_by_core", lambda *_, **__: None)
    for change, one in zip(changes, pending, strict=True):
        assert shown(change(one)) == shown(change(plainly_opened(data, apply_exif_orientation=True)))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.needs_core
def test_orientations(orientation: int) -> None:
    data = corpus.save(Image.fromarray(corpus.photo(40, 56)), "JPEG", exif=corpus.exif(orientation))
    image = opened(data, apply_exif_orientation=True)
    assert fastpipe.is_pending(image)
    assert shown(image) == shown(plainly_opened(data, apply_exif_orientation=True))
    for change in (lambda image: F.resize(image, [20, 30]), lambda image: image[..., 3:20, 4:30]):
        expected = shown(change(plainly_opened(data, apply_exif_orientation=True)))
        assert shown(change(opened(data, apply_exif_orientation=True))) == expected


@pytest.mark.needs_core
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (32, 32), (100, 300)], ids=str)
def test_images_of_any_size_are_torchvisions(size: tuple[int, int]) -> None:
    data = corpus.jpeg(*size)
    made = opened(data)
    assert fastpipe.is_pending(made)
    assert shown(made) == shown(plainly_opened(data))


@pytest.mark.needs_core
@pytest.mark.parametrize("kind", [GRAY, RGB])
def test_sixteen_bits_are_torchvisions(kind: int) -> None:
    """As uint16, with torchvision's strides; what can't be proved is torchvision's."""
    counted = LEDGER.site("function", "torchvision.io.decode_image")
    for height, width in ((13, 27), (1, 1), (1, 9), (9, 1)):
        samples = samples_of(height, width, kind, 65536)
        for before in (b"", corpus.chunk(b"tRNS", bytes(2 if kind == GRAY else 6))):
            data = file_of(samples, (0, 1, 2, 3, 4), before)
            for mode in MODES:
                images = counted.images
                assert shown(opened(data, mode=mode)) == shown(plainly_opened(data, mode=mode)), mode
                is_known = mode in ("UNCHANGED", "RGB") or (mode == "GRAY" and kind == GRAY)
                assert (counted.images > images) == (is_known and not before), mode
    for damaged in (data[:-20], data[:60], data[:-14] + b"x" + data[-13:]):
        torchvision_io_here.skip_where_torchvision_dies_of(damaged)
        assert outcome(lambda damaged=damaged: opened(damaged)) == outcome(
            lambda damaged=damaged: plainly_opened(damaged)
        )


def test_files_are_left_to_torchvision_where_v2_isnt_accelerated(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(patches: object) -> None:
        raise OtherVersionError("it is of another version")

    monkeypatch.setattr(pending_tensors, "_record_functions", refuse)
    image = opened()
    assert not fastpipe.is_pending(image)
    assert shown(image) == shown(plainly_opened())
    assert "torchvision's v2 isn't accelerated" in {r for site in fastpipe.report().sites for r in site.left}


@pytest.mark.needs_core
def test_small_images_are_left_to_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_files, "LEAST_PIXELS", 1 << 15)
    assert not fastpipe.is_pending(opened(corpus.jpeg(100, 300)))
    assert fastpipe.is_pending(opened(corpus.jpeg(200, 300)))
    for kind, height, width in (
        *(("PNG", 100, 300), ("PNG", 1, 4000), ("PNG", 32767, 1), ("PNG", 200, 300)),
        *(("JPEG", 150, 200), ("JPEG", 31, 1000), ("JPEG", 500, 400)),
    ):
        data = corpus.save(corpus.photo(height, width), kind)
        image = opened(data)
        assert fastpipe.is_pending(image) == (height * width >= 1 << 15)
        assert shown(image) == shown(plainly_opened(data))
    reasons = {reason for site in fastpipe.report().sites for reason in site.left}
    assert "an image of less than 32,768 pixels, which torchvision decodes as fast" in reasons
    monkeypatch.setattr(tensor_files, "LEAST_BYTES", 1 << 20)
    assert not fastpipe.is_pending(opened(corpus.jpeg(200, 300)))


def test_missing_files_and_odd_arguments() -> None:
    calls: list[Callable[[], Any]] = [
        lambda: tio.decode_image("/nowhere/photo.jpeg"),
        lambda: tio.read_image("/nowhere/photo.jpeg"),
        lambda: tio.decode_image(os.fspath(Path(__file__).parent)),
        lambda: tio.decode_image("a\0b"),
        lambda: tio.decode_image(7),
        lambda: tio.decode_image(),
        lambda: tio.decode_image(as_tensor(PHOTO), "RGB", False, 7),
        lambda: tio.decode_image(as_tensor(PHOTO), nothing=1),
        lambda: tio.decode_image(as_tensor(PHOTO), mode="CMYK"),
        lambda: tio.decode_image(as_tensor(PHOTO), mode=3),
        lambda: tio.decode_image(as_tensor(PHOTO).float()),
        lambda: tio.decode_image(as_tensor(PHOTO)[None]),
        lambda: tio.decode_image(as_tensor(PHOTO)[:0]),
        lambda: tio.decode_image(as_tensor(PHOTO)[: len(PHOTO) // 2]),
        lambda: tio.decode_jpeg([as_tensor(PHOTO), as_tensor(PHOTO)]),
        lambda: tio.decode_jpeg(as_tensor(PHOTO), device="meta"),
        lambda: tio.decode_jpeg(as_tensor(KINDS["PNG"])),
    ]
    for call in calls:
        with plainly():
            expected = outcome(call)
        assert outcome(call) == expected


def test_older_versions_take_no_names_of_modes_and_no_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def older(input: torch.Tensor, mode: Any = tio.ImageReadMode.UNCHANGED) -> tuple[object, ...]:
        return input.numel(), mode.value

    monkeypatch.setattr(tensor_files, "_TAKES_NAMES", False)
    path = tmp_path / "photo.jpeg"
    path.write_bytes(PHOTO)
    files = tensor_files.TensorFiles("decode_image", older)
    assert fastpipe.is_pending(files.open((as_tensor(PHOTO), tio.ImageReadMode.RGB), {}))
    for args, kwargs in (((as_tensor(PHOTO), "RGB"), {}), ((path,), {}), ((), {"input": str(path)})):
        with pytest.raises(AttributeError):
            files.open(args, kwargs)


def test_the_given_bytes_may_be_used_again() -> None:
    given = as_tensor(PHOTO)
    image = tio.decode_image(given)
    given.zero_()
    assert shown(image) == shown(plainly_opened())


def test_a_file_may_be_gone_by_then(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpeg"
    path.write_bytes(PHOTO)
    image = tio.decode_image(str(path))
    path.unlink()
    assert shown(image) == shown(plainly_opened())


# -- memory that several see


def test_windows_share_memory() -> None:
    def first_window_changes(image: Any) -> Any:
        one, other = image[..., 3:60, 7:50], F.crop(image, 10, 10, 50, 60)
        one.add_(1)
        return image, one, other

    def the_image_changes(image: Any) -> Any:
        one = F.center_crop(image, 30)
        image.zero_()
        return one, F.horizontal_flip(one)

    def without_the_image(image: Any) -> Any:
        one, other = image[..., 3:60, 7:50], image[..., 10:60, 7:50]
        del image
        one.add_(1)
        return one, other

    def window_of_a_window(image: Any) -> Any:
        one = image[..., 3:60, 7:50]
        other = one[..., 3:20, 4:9]
        del image
        other.add_(1)
        return one, other

    def what_was_made_before_stays(image: Any) -> Any:
        one = F.resize(image, [20, 30])
        flipped = F.horizontal_flip(image[..., 3:60, 7:50])
        image.zero_()
        return one, flipped

    def as_an_image(image: Any) -> Any:
        made = tv_tensors.Image(image)
        made.add_(1)
        return image, made

    for way in (
        first_window_changes,
        the_image_changes,
        without_the_image,
        window_of_a_window,
        what_was_made_before_stays,
        as_an_image,
    ):
        assert shown(way(opened())) == shown(way(plainly_opened())), way.__name__


def test_many_parts_decode_the_whole_once() -> None:
    image, plain = opened(), plainly_opened()
    boxes = [(3 * number, 4, 60, 100) for number in range(8)]
    parts = [F.resize(F.horizontal_flip(image[..., t : t + h, left : left + w]), [30, 30]) for t, left, h, w in boxes]
    expected = [
        F.resize(F.horizontal_flip(plain[..., t : t + h, left : left + w]), [30, 30]) for t, left, h, w in boxes
    ]
    assert shown(torch.stack(parts)) == shown(torch.stack(expected))


def test_threads() -> None:
    for _ in range(10):
        image, seen = opened(), []
        begin = threading.Barrier(4)

        def look(image: Any = image, seen: list[Any] = seen, begin: threading.Barrier = begin) -> None:
            begin.wait()
            seen.append((image.data_ptr(), int(image.sum())))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seen)) == 1
        assert seen[0][1] == plainly_opened().sum()


class _Photos(Dataset[Any]):
    def __init__(self, transform: Any = None) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        image = tio.decode_image(as_tensor(corpus.jpeg(60, 80, "420", seed=index)))
        return image if self.transform is None else self.transform(image)


def _as_list(samples: list[Any]) -> list[Any]:
    return samples


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("collate", [None, _as_list])
def test_loaders(workers: int, collate: Any) -> None:
    normalized = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.2])])
    for transform in (None, normalized):
        loader = DataLoader(_Photos(transform), batch_size=3, num_workers=workers, collate_fn=collate)
        with plainly():
            expected = [
                shown(list(batch)) for batch in DataLoader(_Photos(transform), batch_size=3, collate_fn=collate)
            ]
        assert [shown(list(batch)) for batch in loader] == expected


@pytest.mark.needs_core
@pytest.mark.parametrize("collate", [None, lambda samples: torch.stack(samples)])
def test_batches_with_small_images_use_memory_again(monkeypatch: pytest.MonkeyPatch, collate: Any) -> None:
    monkeypatch.setattr(tensor_files, "LEAST_PIXELS", 60 * 90)

    class Mixed(_Photos):
        def __getitem__(self, index: int) -> Any:
            image = opened(corpus.jpeg(60, 80 + 20 * (index % 2), "420", seed=index))
            return v2.functional.resize(image, [300, 300])

    assert [fastpipe.is_pending(Mixed()[index]) for index in range(4)] == [False, True, False, True]
    with plainly():
        (expected,) = DataLoader(Mixed(), batch_size=6)
    places, others = set(), []
    monkeypatch.setattr(pending_work.Record, "_new", lambda _: pytest.fail("an image is made outside the batch"))
    for _ in range(8):
        for batch in DataLoader(Mixed(), batch_size=6, collate_fn=collate):
            assert torch.equal(batch, expected)
            places.add(batch.data_ptr())
            size = batch.shape
            del batch
        others.append(torch.empty(size, dtype=torch.uint8))  # which takes what the allocator has
    assert len(places) <= 4


def test_pickles_need_no_fastpipe(tmp_path: Path) -> None:
    for number, image in enumerate((opened(), F.to_image(opened()), F.horizontal_flip(opened()))):
        path = tmp_path / f"{number}.pickle"
        path.write_bytes(pickle.dumps(image))
        assert b"fastpipe" not in path.read_bytes()


# -- what stays


def test_uninstall_leaves_nothing() -> None:
    fastpipe.uninstall()
    utils = module("torchvision.transforms.v2.functional._utils")
    owners = (tio, tio.image, v2.Compose, torch, torch.Tensor, torch.nn.Parameter, torch.jit, torch.jit._trace)
    before = [dict(vars(owner)) for owner in owners], {name: dict(one) for name, one in utils._KERNEL_REGISTRY.items()}
    with fastpipe.install():
        image, flipped = opened(), F.horizontal_flip(opened())
        decode = tio.decode_image
        assert tio.decode_image is tio.image.decode_image
    after = [dict(vars(owner)) for owner in owners], {name: dict(one) for name, one in utils._KERNEL_REGISTRY.items()}
    assert before == after
    assert not fastpipe.is_pending(decode(as_tensor(PHOTO)))
    assert shown(image) == shown(plainly_opened())
    assert shown(F.resize(flipped, [20, 30])) == shown(F.resize(F.horizontal_flip(plainly_opened()), [20, 30]))


@pytest.mark.parametrize("function", ["decode_image", "decode_jpeg"])
def test_torchscript_compiles_torchvisions(function: str) -> None:
    scripted = torch.jit.script(getattr(tio, function))
    assert shown(scripted(as_tensor(PHOTO))) == shown(plainly_opened())


def test_nothing_is_imported_for_it() -> None:
    code = (
        "import sys, fastpipe; fastpipe.install(); import torch\n"
        "assert 'torchvision' not in sys.modules and 'fastpipe.program' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_samples_keep_their_class_and_get_ordinary_tensors() -> None:
    sample = OrderedDict(image=opened(), numbers=[1, (2, opened())])
    parts = [*sample.values()]
    assert with_ordinary_tensors(sample) is sample
    assert all(new is old for new, old in zip(sample.values(), parts, strict=True))
    assert not fastpipe.is_pending(sample["image"])
    assert not fastpipe.is_pending(sample["numbers"][1][1])

"""Files that ``Image.open`` opens behind `register_pillow_opener`: Pillow's images, whatever is done to them."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from PIL import Image, ImageOps, JpegImagePlugin, PngImagePlugin
from pillow.outcomes import outcome, shown
from torchvision_here import torchvision

import fastpipe
from fastpipe.pillow.lazy_image import LazyImage

FILES = corpus.files()
LARGE_PHOTO = corpus.jpeg(700, 900, "444", quality=97)
PHOTO, PNG = corpus.jpeg(97, 131, "420", seed=5), corpus.save(corpus.photo(97, 131, 6), "PNG")
PALETTE = corpus.save(Image.fromarray(corpus.photo(97, 131, 6)).quantize(), "PNG")
TV = torchvision.transforms


@pytest.fixture(autouse=True)
def _pillow_as_it_was() -> Iterator[None]:
    before = dict(Image.OPEN)
    yield
    fastpipe.unregister_pillow_opener()
    assert before == Image.OPEN


def both(data: bytes, change: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The outcome of a change without the opener, and with it."""

    def action() -> Any:
        return change(Image.open(io.BytesIO(data)))

    theirs = outcome(action)
    with fastpipe.register_pillow_opener():
        return theirs, outcome(action)


def closed_and_converted(image: Any) -> Any:
    with image:
        converted = image.convert("RGB")
    return converted.crop((0, 0, 1, 1)), image.size, shown(image)


def drafted(image: Any) -> Any:
    told = image.draft("L", (image.width // 2 + 1, image.height // 2 + 1))
    return told, shown(image)


def drafted_behind(image: Any) -> Any:
    part = image.convert("RGB")
    return image.draft("L", (40, 40)), shown(image), shown(part)


def thumbnail(image: Any) -> Any:
    image.thumbnail((40, 30))
    return image


def turned(image: Any) -> Any:
    image.getexif()[0x0112] = 6
    ImageOps.exif_transpose(image, in_place=True)
    return shown(image), getattr(image, "text", None), shown(image.copy())


def verified(image: Any) -> Any:
    image.verify()
    return image.fp is None


def rewound(image: Any) -> Any:
    image.seek(0)
    return image.tell(), getattr(image, "n_frames", 1), shown(image)


def painted(image: Any) -> Any:
    before = image.convert("RGB")
    image.paste(3, (1, 1, 5, 5))
    return shown(before), shown(image), shown(image.crop((0, 0, 9, 9)))


CHANGES: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda image: image,
    "RGB": lambda image: image.convert("RGB"),
    "a view": lambda image: image.convert("RGB").crop((0, 0, 12, 9)).resize((20, 20), 2).transpose(0),
    "gray": lambda image: image.convert("L"),
    "copied": lambda image: image.copy(),
    "resized": lambda image: image.resize((9, 8)),
    "loaded twice": lambda image: (image.load() is not None, image.load() is not None, shown(image)),
    "drafted": drafted,
    "drafted behind": drafted_behind,
    "a thumbnail": thumbnail,
    "turned in place": turned,
    "verified": verified,
    "verified behind a copy": lambda image: (image.copy(), verified(image))[1],
    "rewound": rewound,
    "painted": painted,
    "pickled": lambda image: pickle.loads(pickle.dumps(image)),
    "of a pickle's first protocol": lambda image: type(pickle.loads(pickle.dumps(image, 0))).__name__,
    "a pickle's bytes": lambda image: [pickle.dumps(image, protocol) for protocol in range(6)],
    "copied deeply": copy.deepcopy,
    "its EXIF data": lambda image: (dict(image.getexif()), image.info),
    "its header": lambda image: (image.format, image.format_description, image.get_format_mimetype(), image.filename),
    "what a JPEG has": lambda image: (image.quantization, image.layers, image.layer, image.applist, image._getexif()),
    "what a JPEG had": lambda image: (image.huffman_ac, image.huffman_dc),
    "what a PNG has": lambda image: (image.text, image.n_frames, image.is_animated, image.info.get("icc_profile")),
    "named": lambda image: (type(image).__name__, type(image).__module__, repr(image).partition(" at ")[0]),
    "saved as it was": lambda image: (
        lambda file: (image.save(file, image.format, quality="keep"), file.getvalue())[1]
    )(io.BytesIO()),
}


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_pillows(name: str) -> None:
    for change in ("as it is", "RGB", "a view", "drafted", "rewound", "its EXIF data", "its header"):
        theirs, ours = both(FILES[name], CHANGES[change])
        assert ours == theirs, change


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "name", ["jpeg-420", "jpeg-gray", "jpeg-exif-6", "jpeg-cmyk", "png-rgb", "png-palette", "png-icc"]
)
def test_whatever_is_done_to_it_is_pillows(name: str, change: str) -> None:
    theirs, ours = both(FILES[name], CHANGES[change])
    assert ours == theirs


@pytest.mark.needs_core
def test_closed_files(tmp_path: Path) -> None:
    for data, name in ((PHOTO, "a.jpg"), (PNG, "a.png"), (PALETTE, "b.png")):
        path = tmp_path / name
        path.write_bytes(data)
        expected = shown(Image.open(path).convert("RGB"))
        own = shown(Image.open(path))
        with fastpipe.register_pillow_opener(), warnings.catch_warnings():
            warnings.simplefilter("error")  # of a file that isn't closed
            with Image.open(path) as image:
                made = image.convert("RGB")
            assert shown(made) == expected
            assert shown(image) == own  # as it has been decoded, in Pillow's eyes
            with path.open("rb") as file:
                made = Image.open(file).convert("RGB")
            path.unlink()
            assert type(made) is LazyImage
            assert shown(made) == expected
            path.write_bytes(data)
            converted = Image.open(path).convert("RGB")
            del converted
            image = Image.open(path)
            copied = image.copy()
            image.close()
            assert shown(copied) == own
            with pytest.raises(ValueError, match="Operation on closed image"):
                image.getpixel((0, 0))


@pytest.mark.needs_core
def test_its_classes_are_pillows() -> None:
    with fastpipe.register_pillow_opener():
        jpeg, png = Image.open(io.BytesIO(PHOTO)), Image.open(io.BytesIO(PNG))
        assert isinstance(jpeg, JpegImagePlugin.JpegImageFile)
        assert isinstance(png, PngImagePlugin.PngImageFile)
        assert type(Image.open(io.BytesIO(FILES["jpeg-cmyk"]))) is JpegImagePlugin.JpegImageFile
        assert type(Image.open(io.BytesIO(FILES["mpo"]))).__name__ == "MpoImageFile"
        assert type(jpeg.convert("RGB")) is LazyImage
        assert type(pickle.loads(pickle.dumps(jpeg))) is JpegImagePlugin.JpegImageFile
        assert jpeg == pickle.loads(pickle.dumps(jpeg))
    plain = Image.open(io.BytesIO(PHOTO))
    assert plain == jpeg
    assert jpeg == plain


@pytest.mark.needs_core
def test_a_tiny_png_is_left_to_pillow() -> None:
    for mode, sides in (("RGB", (64, 65)), ("L", (110, 111)), ("RGBA", (55, 56)), ("1", (166, 167))):
        square = Image.fromarray(corpus.photo(170, 170, seed=3)).convert(mode)
        tiny, larger = (corpus.save(square.crop((0, 0, side, side)), "PNG") for side in sides)
        with fastpipe.register_pillow_opener():
            assert type(Image.open(io.BytesIO(tiny))) is PngImagePlugin.PngImageFile
            assert type(Image.open(io.BytesIO(tiny)).convert("RGB")) is Image.Image
            assert type(Image.open(io.BytesIO(larger)).convert("RGB")) is LazyImage
    with fastpipe.register_pillow_opener():
        assert type(Image.open(io.BytesIO(corpus.jpeg(8, 8))).convert("RGB")) is LazyImage


@pytest.mark.needs_core
def test_registering_and_taking_it_back() -> None:
    before = dict(Image.OPEN)
    with fastpipe.register_pillow_opener():
        with fastpipe.register_pillow_opener():
            pass
        assert before != Image.OPEN
        assert type(Image.open(io.BytesIO(PHOTO)).copy()) is LazyImage
        Image.init()
        assert type(Image.open(io.BytesIO(PHOTO), formats=["JPEG"]).copy()) is LazyImage
    assert before == Image.OPEN
    fastpipe.register_pillow_opener()
    fastpipe.register_pillow_opener()
    assert list(Image.OPEN) == list(before)
    fastpipe.unregister_pillow_opener()
    assert before == Image.OPEN
    fastpipe.unregister_pillow_opener()
    assert type(Image.open(io.BytesIO(PHOTO)).copy()) is Image.Image


def test_threads_open_and_share_files() -> None:
    expected = shown(Image.open(io.BytesIO(PHOTO)).convert("RGB").crop((3, 4, 90, 80)))
    found: list[Any] = []
    with fastpipe.register_pillow_opener():
        shared = Image.open(io.BytesIO(PHOTO))

        def work() -> None:
            own = Image.open(io.BytesIO(PHOTO))
            found.extend(shown(image.convert("RGB").crop((3, 4, 90, 80))) for image in (own, shared))
            shared.load()

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [expected] * 12


def _in_child(path: str) -> bytes:
    return Image.open(path).convert("RGB").resize((20, 20)).tobytes()


@pytest.mark.needs_fork
def test_forked_workers(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(PHOTO)
    expected = _in_child(str(path))
    with fastpipe.register_pillow_opener(), multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_in_child, [str(path)] * 4) == [expected] * 4


@pytest.mark.parametrize("workers", [0, 2])
def test_torchvisions_dataset_and_transforms(tmp_path: Path, workers: int) -> None:
    names = [name for name in FILES if name.startswith(("jpeg-4", "jpeg-gray-1", "png-r", "jpeg-p", "gif"))][:24]
    for number, name in enumerate(names):
        path = tmp_path / "ab"[number % 2] / f"{number:02}.{name.partition('-')[0]}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(FILES[name])
    normalize = TV.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    training = TV.Compose([TV.RandomResizedCrop(24), TV.RandomHorizontalFlip(), TV.ToTensor(), normalize])
    evaluation = TV.Compose([TV.Resize(32), TV.CenterCrop(24), TV.ToTensor(), normalize])
    policies = TV.Compose(
        [TV.RandAugment(), TV.ColorJitter(0.3, 0.3, 0.3, 0.1), TV.RandomCrop(24, 4, True), TV.ToTensor()]
    )
    for transform in (training, evaluation, policies):
        dataset = torchvision.datasets.ImageFolder(tmp_path, transform)
        loader = torch.utils.data.DataLoader(dataset, batch_size=5, num_workers=workers)
        torch.manual_seed(3)
        expected = list(loader)
        with fastpipe.register_pillow_opener():
            torch.manual_seed(3)
            for ours, theirs in zip(loader, expected, strict=True):
                assert torch.equal(ours[0], theirs[0])
                assert torch.equal(ours[1], theirs[1])


def test_a_file_that_is_read_on_is_where_pillow_leaves_off() -> None:
    file = io.BytesIO(PHOTO)
    with fastpipe.register_pillow_opener():
        image = Image.open(file)
        part = image.crop((1, 2, 30, 40))
        assert not file.closed
        assert np.array_equal(np.asarray(part), np.asarray(image)[2:40, 1:30])


@pytest.mark.parametrize(
    "data",
    [
        PHOTO,
        PNG,
        PHOTO + b"tail",
        PNG + b"tail",
        LARGE_PHOTO,
        FILES["jpeg-progressive"],
        *(first + LARGE_PHOTO + PHOTO for first in (PHOTO, LARGE_PHOTO, FILES["jpeg-progressive"])),
    ],
)
@pytest.mark.parametrize("name", ["load", "convert", "resize", "getexif", "asarray", "later"])
def test_a_file_of_the_user_s_is_read_on_from_where_pillow_stops(name: str, data: bytes, tmp_path: Path) -> None:
    """Another image may follow in it, or anything else."""
    looks: dict[str, Callable[[Any], Any]] = {
        "load": lambda image: image.load(),
        "convert": lambda image: image.convert("RGB"),
        "resize": lambda image: image.resize((3, 4)),
        "getexif": lambda image: image.getexif(),
        "asarray": np.asarray,
        "later": lambda image: (image.fp.seek(3), image.copy()),
    }
    path = tmp_path / "image"
    path.write_bytes(data)

    def positions() -> list[int]:
        found = []
        for file in (io.BytesIO(data), path.open("rb")):
            with file:
                image = Image.open(file)
                found.append(file.tell())
                looks[name](image)
                found.append(file.tell())
        return found

    expected = positions()
    with fastpipe.register_pillow_opener():
        assert positions() == expected


def test_a_file_that_was_closed_meanwhile_is_told_by_pillow(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(PHOTO)

    def told() -> str:
        with path.open("rb") as file:
            image = Image.open(file)
        with pytest.raises(ValueError, match="closed file") as raised:
            image.convert("RGB")
        return str(raised.value)

    expected = told()
    with fastpipe.register_pillow_opener():
        assert told() == expected


def test_attributes_of_the_users_are_theirs() -> None:
    names = ("source", "lazy", "run_prefix_in_core", "pillow", "record", "encoded")
    with fastpipe.register_pillow_opener():
        image: Any = Image.open(io.BytesIO(PHOTO))
        part: Any = image.crop((3, 4, 60, 50))
        for one in (image, part):
            assert not any(hasattr(one, name) for name in names)
            vars(one).update(dict.fromkeys(names, "mine"))
        made = shown(part.resize((20, 30))), shown(image.resize((20, 30)))
        assert {getattr(one, name) for one in (image, part) for name in names} == {"mine"}
    plain = Image.open(io.BytesIO(PHOTO))
    assert made == (shown(plain.crop((3, 4, 60, 50)).resize((20, 30))), shown(plain.resize((20, 30))))


class _Mine(Image.Image):
    pass


class _MyJpeg(JpegImagePlugin.JpegImageFile):
    pass


@pytest.mark.parametrize("before", [lambda image: None, Image.Image.load, lambda image: image.crop((1, 1, 4, 4))])
def test_an_image_may_be_given_a_class_of_the_users(before: Callable[[Any], Any]) -> None:
    plain = shown(Image.open(io.BytesIO(PHOTO)))
    with fastpipe.register_pillow_opener():
        file = Image.open(io.BytesIO(PHOTO))
        image = file.convert("RGB")
        assert (file.__class__, image.__class__) == (JpegImagePlugin.JpegImageFile, Image.Image)
        before(file)
        before(image)
        file.__class__, image.__class__ = _MyJpeg, _Mine
        assert (type(file), type(image)) == (_MyJpeg, _Mine)
        assert shown(file) == shown(image) == plain


def _broken(data: bytes, how: str) -> bytes:
    middle = len(data) // 2
    if how == "a marker in the scan":
        return data[:middle] + b"\xff\xc4\x00\x05" + data[middle + 4 :]
    if how == "zeros":
        return data[:middle] + bytes(400) + data[middle + 400 :]
    return data[:middle]


@pytest.mark.parametrize("how", ["a marker in the scan", "zeros", "cut off"])
@pytest.mark.parametrize("kind", ["JPEG", "JPEG progressive", "PNG"])
def test_a_broken_file_raises_where_pillow_raises(kind: str, how: str) -> None:
    """Many a data set opens within ``try``, and takes another file."""
    file = io.BytesIO()
    Image.fromarray(corpus.photo(97, 131, 6)).save(file, kind.partition(" ")[0], progressive="progressive" in kind)
    data = _broken(file.getvalue(), how)

    def steps() -> list[str]:
        done = []
        for step in (lambda image: image.convert("RGB"), lambda image: image.crop((0, 0, 9, 9)), np.asarray):
            try:
                step(Image.open(io.BytesIO(data)))
            except (OSError, SyntaxError, ValueError) as error:
                done.append(f"{type(error).__name__}: {error}")
        return done

    expected = steps()
    assert expected or how == "zeros"
    with fastpipe.register_pillow_opener():
        assert steps() == expected

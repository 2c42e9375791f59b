"""Packed images under the JPEGs' own names, in scripts that know nothing of them: the JPEGs' own samples."""

from __future__ import annotations

import io
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import hugging_face_here
import numpy as np
import pytest
import torch
from packed_copies import damaged, packed_jpegs
from PIL import Image
from plain_and_hooked import assert_same, epoch
from torch.utils.data import Dataset
from torchvision_here import module, torchvision
from torchvision_io_here import why_not

import fastpipe
from fastpipe.core.packed import is_packed, pack
from fastpipe.hooks.ledger import LEDGER

pytestmark = [pytest.mark.needs_core, pytest.mark.usefixtures("fresh_ledger")]

T = torchvision.transforms
COUNT = 24


def _no_check_differed() -> bool:
    return all(site.differed == 0 and not site.is_off for site in LEDGER._sites.values())


# -- decoders


def _result(function: Any, *args: Any, **options: Any) -> Any:
    try:
        made = function(*args, **options)
    except Exception as error:
        return type(error)
    if isinstance(made, list):
        return [*map(np.asarray, made)]
    return None if made is None else np.asarray(made)


def _assert_same_results(made: list[Any], expected: list[Any], what: object) -> None:
    for number, (one, other) in enumerate(zip(made, expected, strict=True)):
        if isinstance(other, np.ndarray):
            np.testing.assert_array_equal(one, other, strict=True, err_msg=f"{what} {number}")
        elif isinstance(other, list):
            _assert_same_results(one, other, what)
        else:
            assert one is other, (what, number)


def _for_checks(check: int) -> list[tuple[str, tuple[bytes, bytes]]]:
    """All JPEGs with their packed bytes, or a few where each use is made plainly, too, and compared."""
    return [*packed_jpegs().items()][:: 5 if check else 1]


class TestOpenCV:
    cv2 = pytest.importorskip("cv2")
    FLAGS = (-1, 0, 1, 2, 4, 5, 6, 7, 16, 17, 32, 64, 128, 129, 256)

    def _seen(self, data: bytes, path: Path) -> list[Any]:
        path.write_bytes(data)
        array = np.frombuffer(data, np.uint8)
        seen = [_result(self.cv2.imread, str(path)), _result(self.cv2.imread, filename=str(path), flags=0)]
        for flags in self.FLAGS:
            seen += [_result(self.cv2.imread, str(path), flags), _result(self.cv2.imdecode, array, flags)]
        return seen

    @pytest.mark.parametrize("check", [0, 1000])
    def test_all_flags(self, tmp_path: Path, check: int) -> None:
        for name, (jpeg, packed) in _for_checks(check):
            expected = self._seen(jpeg, tmp_path / "a.jpg")
            with fastpipe.install(check=check):
                _assert_same_results(self._seen(packed, tmp_path / "a.jpg"), expected, name)
        assert _no_check_differed()

    def test_a_damaged_image_is_none(self, tmp_path: Path) -> None:
        for about, data in damaged(packed_jpegs()["exif"][1]).items():
            for check in (0, 1000):
                with fastpipe.install(check=check):
                    assert self._seen(data, tmp_path / "a.jpg") == [None] * (2 + 2 * len(self.FLAGS)), about

    def test_opencvs_limits(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        jpeg, packed = packed_jpegs()["exif"]
        expected = self._seen(jpeg, tmp_path / "a.jpg")
        monkeypatch.setenv("OPENCV_IO_MAX_IMAGE_PIXELS", str(1 << 30))
        with fastpipe.install():
            _assert_same_results(self._seen(packed, tmp_path / "a.jpg"), expected, "limited")


@pytest.mark.skipif(bool(why_not()), reason=why_not())
class TestTorchvision:
    def _seen(self, data: bytes, path: Path) -> list[Any]:
        from torchvision import io as images

        path.write_bytes(data)
        content = images.read_file(str(path))
        seen = [_result(images.read_image, str(path)), _result(images.decode_image, input=str(path))]
        seen += [_result(images.decode_image, path, "RGB", True), _result(images.decode_png, content)]
        for mode in images.ImageReadMode:
            for turns in (False, True):
                seen += [
                    _result(decode, content, mode=mode, apply_exif_orientation=turns)
                    for decode in (images.decode_image, images.decode_jpeg)
                ]
        return [*seen, _result(images.decode_jpeg, [content, content])]

    @pytest.mark.parametrize("check", [0, 1000])
    def test_all_modes(self, tmp_path: Path, check: int) -> None:
        for name, (jpeg, packed) in _for_checks(check):
            expected = self._seen(jpeg, tmp_path / "a.jpg")
            with fastpipe.install(check=check):
                _assert_same_results(self._seen(packed, tmp_path / "a.jpg"), expected, name)
        assert _no_check_differed()

    def test_a_damaged_image_raises(self, tmp_path: Path) -> None:
        for name in ("exif", "large"):
            for about, data in damaged(packed_jpegs()[name][1]).items():
                with fastpipe.install(check=0):
                    assert set(self._seen(data, tmp_path / "a.jpg")) == {RuntimeError}, about


# -- data sets


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two classes of JPEGs and a PNG each, and a copy in which the JPEGs are packed, under their own names."""
    root = tmp_path_factory.mktemp("folders")
    for number in range(COUNT):
        name = f"{'ab'[number % 2]}/{number}.{('jpg', 'JPEG', 'png')[number % 3 if number < 6 else number % 2]}"
        height, width, data = 130 + 7 * (number % 5), 170 - 9 * (number % 4), b""
        if name.endswith("png"):
            data = copy = corpus.save(corpus.photo(height, width, number), "PNG")
        else:
            options = {"exif": corpus.exif(6)} if number % 5 == 0 else {}
            data = corpus.save(corpus.photo(height, width, number), "JPEG", **options)
            copy = pack(data)
        for kind, content in (("jpegs", data), ("packed", copy)):
            path = root / kind / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return root / "jpegs", root / "packed"


class OwnDataset(Dataset[Any]):
    """A user's own class."""

    def __init__(self, root: Path, transform: Any) -> None:
        self.files = sorted(str(path) for path in root.rglob("*.*"))
        self.transform = transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        with open(self.files[index], "rb") as file:
            image = Image.open(file).convert("RGB")
        return self.transform(image), index


def _transform() -> Any:
    normalize = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    jitter = T.ColorJitter(0.4, 0.4, 0.4)
    return T.Compose([T.RandomResizedCrop(64), T.RandomHorizontalFlip(), jitter, T.ToTensor(), normalize])


SCRIPTS = {
    "own": lambda root: OwnDataset(root, _transform()),
    "ImageFolder": lambda root: torchvision.datasets.ImageFolder(str(root), _transform()),
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(
    ("check", "workers"), [(2, {}), (0, {"num_workers": 2, "multiprocessing_context": "fork"})], ids=["checked", "fork"]
)
def test_batches(folders: tuple[Path, Path], script: str, check: int, workers: dict[str, Any]) -> None:
    expected, state = epoch(SCRIPTS[script](folders[0]), **workers)
    with fastpipe.install(check=check):
        made, after = epoch(SCRIPTS[script](folders[1]), **workers)
    assert_same(made, expected)
    assert after.draws_like(state)
    assert _no_check_differed()


@pytest.mark.slow
def test_spawned_workers(folders: tuple[Path, Path]) -> None:
    workers = {"num_workers": 1, "multiprocessing_context": "spawn"}
    expected, _ = epoch(OwnDataset(folders[0], T.ToTensor()), batch_size=1, **workers)
    with fastpipe.install(check=0):
        made, _ = epoch(OwnDataset(folders[1], T.ToTensor()), batch_size=1, **workers)
    assert_same(made, expected)


def _samples(samples: Any) -> list[Any]:
    return [np.asarray(sample) if isinstance(sample, Image.Image) else sample for sample in samples]


class OfRows(Dataset[Any]):
    """A user's own class over encoded images."""

    def __init__(self, rows: list[bytes]) -> None:
        self.rows, self.transform = rows, _transform()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(io.BytesIO(self.rows[index])).convert("RGB")), index


def _files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.*"))


def _parquet(root: Path, folder: Path) -> Path:
    """A Parquet file of Hugging Face's with a folder's images and labels."""
    datasets = pytest.importorskip("datasets")
    rows = [
        {"image": {"bytes": path.read_bytes(), "path": path.name}, "label": "ab".index(path.parent.name)}
        for path in _files(root)
    ]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    path = folder / root.name / "train.parquet"
    path.parent.mkdir()
    datasets.Dataset.from_list(rows, features=features).to_parquet(path)
    return path


def _tar(root: Path, folder: Path) -> Path:
    path = folder / f"{root.name}.tar"
    with tarfile.open(path, "w") as archive:
        for file in _files(root):
            archive.add(file, file.relative_to(root))
    return path


@pytest.mark.parametrize("reader", ["folder", "tar", "hfds"])
def test_timms_readers(folders: tuple[Path, Path], tmp_path: Path, reader: str) -> None:
    pytest.importorskip("timm")
    kind = module("timm.data").ImageDataset

    def dataset(root: Path) -> Any:
        if reader == "hfds":
            source = f"hfds/{_parquet(root, tmp_path).parent}"
            return kind(str(tmp_path / f"{root.name}-cache"), source, transform=_transform())
        return kind(str(_tar(root, tmp_path) if reader == "tar" else root), transform=_transform())

    expected, state = epoch(dataset(folders[0]))
    with fastpipe.install():
        made, after = epoch(dataset(folders[1]))
    assert_same(made, expected)
    assert after.draws_like(state)
    assert _no_check_differed()


def _of_zip(root: Path, folder: Path) -> list[bytes]:
    with zipfile.ZipFile(folder / f"{root.name}.zip", "w") as archive:
        for file in _files(root):
            archive.write(file, file.name)
    with zipfile.ZipFile(folder / f"{root.name}.zip") as archive:
        return [archive.read(name) for name in archive.namelist()]


def _of_pandas(root: Path, folder: Path) -> list[bytes]:
    frame = pytest.importorskip("pandas").read_parquet(_parquet(root, folder))
    return [row["bytes"] for row in frame["image"]]


def _of_pyarrow(root: Path, folder: Path) -> list[bytes]:
    table = pytest.importorskip("pyarrow.parquet").read_table(_parquet(root, folder))
    return [row["bytes"] for row in table["image"].to_pylist()]


def _of_lmdb(root: Path, folder: Path) -> list[bytes]:
    with pytest.importorskip("lmdb").open(str(folder / root.name), map_size=1 << 26) as database:
        with database.begin(write=True) as writing:
            for file in _files(root):
                writing.put(file.name.encode(), file.read_bytes())
        with database.begin() as reading:
            return [value for _, value in reading.cursor()]


@pytest.mark.parametrize("rows", [_of_zip, _of_pandas, _of_pyarrow, _of_lmdb])
def test_rows_of_bytes(folders: tuple[Path, Path], tmp_path: Path, rows: Callable[[Path, Path], list[bytes]]) -> None:
    jpegs, packed = (OfRows(rows(root, tmp_path)) for root in folders)
    assert sum(map(is_packed, packed.rows)) > COUNT // 2
    expected, state = epoch(jpegs)
    with fastpipe.install():
        made, after = epoch(packed)
    assert_same(made, expected)
    assert after.draws_like(state)
    assert _no_check_differed()


def test_webdataset(folders: tuple[Path, Path], tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    shards = []
    for root in folders:
        shards.append(tmp_path / f"{root.name}.tar")
        with tarfile.open(shards[-1], "w") as shard:
            for number, path in enumerate(sorted(root.rglob("*.jpg"))):
                shard.add(path, f"{number:06d}.jpg")
    for decoder in ("pil", "pilrgb", "rgb8", "rgb", "torchrgb8"):
        with fastpipe.install():
            made, expected = (
                _samples(
                    sample["jpg"] for sample in webdataset.WebDataset(str(shard), shardshuffle=False).decode(decoder)
                )
                for shard in shards[::-1]
            )
        assert len(made) > 3
        assert_same(made, expected)


def test_hugging_face(folders: tuple[Path, Path], tmp_path: Path) -> None:
    datasets = hugging_face_here.datasets()
    found = []
    for root in folders:
        rows = [
            {"image": {"bytes": path.read_bytes(), "path": path.name}, "label": number}
            for number, path in enumerate(sorted(root.rglob("*.jpg")))
        ]
        features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
        datasets.Dataset.from_list(rows, features=features).to_parquet(tmp_path / f"{root.name}.parquet")
        read = datasets.Dataset.from_parquet(
            str(tmp_path / f"{root.name}.parquet"), cache_dir=str(tmp_path / root.name)
        )
        with fastpipe.install():
            found.append([(np.asarray(row["image"]), row["label"]) for row in read])
    assert_same(found[1], found[0])


def test_without_torch_in_use(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that doesn't import torch gets Pillow's own image of the restored file."""
    path = next(folders[1].rglob("*.jpg"))
    with fastpipe.install():
        monkeypatch.setattr("fastpipe.hooks.pillow.openers.sys.modules", {})
        image = Image.open(path)
        assert type(image).__module__ == "PIL.JpegImagePlugin"
        assert not fastpipe.is_pending(image)
        expected = Image.open(io.BytesIO((folders[0] / path.relative_to(folders[1])).read_bytes()))
        assert image.tobytes() == expected.tobytes()


def test_an_uninstalled_hook_leaves_nothing(folders: tuple[Path, Path]) -> None:
    random.seed(0)
    before = dict(Image.OPEN)
    with fastpipe.install():
        Image.open(next(folders[1].rglob("*.jpg"))).load()
        assert torch.is_tensor(torch.zeros(1))
    assert before == Image.OPEN

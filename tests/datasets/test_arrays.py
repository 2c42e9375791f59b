"""ArrayFolder and ArrayList against NumPy and torchvision's RandomCrop: every type, order and shape, both ways."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path
from typing import Any

import archives
import numpy as np
import pytest
import torch
from torchvision_here import torchvision

import fastpipe
from fastpipe import core
from fastpipe.errors import DatasetError, DecodeError, FastpipeWarning

DTYPES = ["?", "u1", "i1", "<i2", ">i2", "<u2", ">i4", "<i8", ">f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c8", ">c16"]
SHAPES = [(), (5,), (3, 4), (1, 1), (2, 3, 4), (2, 1, 5, 7), (0, 3)]


@pytest.fixture(params=["core", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By the core where there is one, and as where there is none."""
    if request.param == "plain":
        monkeypatch.setattr("fastpipe.executor.batch_executor.thread_resources", lambda threads: None)
    elif not core.available():
        pytest.skip(core.why_not())
    return str(request.param)


def made(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    bits = np.random.default_rng(seed).integers(0, 256, int(np.prod(shape)) * np.dtype(dtype).itemsize, np.uint8)
    if dtype == "?":
        bits &= 1
    array = np.frombuffer(bits.tobytes(), dtype).reshape(shape)
    return np.asarray(np.nan_to_num(array), dtype)  # of no axis NumPy makes a scalar, in this machine's order


def written(folder: Path, arrays: list[np.ndarray]) -> list[str]:
    paths = [str(folder / f"{number:03}.npy") for number in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    return paths


def batch_of(dataset: Any, count: int, **options: Any) -> torch.Tensor:
    ((images, _),) = fastpipe.DataLoader(dataset, batch_size=count, **options)
    return images


def expected(arrays: list[np.ndarray]) -> torch.Tensor:
    return torch.from_numpy(np.stack([array.astype(array.dtype.newbyteorder("=")) for array in arrays]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_and_shape(tmp_path: Path, way: str, dtype: str) -> None:
    for number, shape in enumerate(SHAPES):
        arrays = [made(dtype, shape, seed) for seed in range(3)]
        folder = tmp_path / str(number)
        folder.mkdir()
        dataset = fastpipe.ArrayList((written(folder, arrays), [4, 5, 6]))
        wanted = expected(arrays)
        found = batch_of(dataset, 3)
        assert found.dtype == wanted.dtype
        assert torch.equal(found, wanted)
        assert torch.equal(dataset[1][0], wanted[1])
        assert dataset[1][1] == 5
        raw = [folder / f"{at}.bin" for at in range(3)]
        for path, array in zip(raw, arrays, strict=True):
            path.write_bytes(array.tobytes())
        assert torch.equal(batch_of(fastpipe.ArrayList((raw, [0] * 3), dtype=dtype, shape=shape), 3), wanted)


def test_a_type_that_only_torch_has(tmp_path: Path, way: str) -> None:
    wanted = torch.arange(12).reshape(2, 6).to(torch.bfloat16)
    for row in range(2):
        (tmp_path / f"{row}.raw").write_bytes(wanted[row].view(torch.int16).numpy().tobytes())
    paths = [tmp_path / "0.raw", tmp_path / "1.raw"]
    found = batch_of(fastpipe.ArrayList((paths, [0, 0]), dtype=torch.bfloat16, shape=(6,)), 2)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("size", [(3, 4), 5, (9, 11), (1, 1), (9, 2)])
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "u1"])
def test_windows_are_torchvisions(tmp_path: Path, way: str, size: Any, dtype: str) -> None:
    """Drawn as RandomCrop draws, from the same generator in the same order."""
    arrays = [made(dtype, (2, 9, 11), seed) for seed in range(5)]
    dataset = fastpipe.ArrayList((written(tmp_path, arrays), [0] * 5), crop=size)
    crop = torchvision.transforms.RandomCrop(size)
    torch.manual_seed(3)
    wanted = torch.stack([crop(image) for image in expected(arrays)])
    end = torch.get_rng_state()
    torch.manual_seed(3)
    found = torch.stack([image for image, _ in dataset.__getitems__(range(5))])
    assert torch.equal(found, wanted)
    assert torch.equal(torch.get_rng_state(), end)
    seeded = fastpipe.ArrayList((written(tmp_path, arrays), [0] * 5), crop=size, seed=7)
    one_by_one = torch.stack([seeded[index][0] for index in range(5)])
    assert torch.equal(batch_of(seeded, 5), one_by_one)
    assert torch.equal(batch_of(seeded, 5, threads=2), torch.stack([seeded[i][0] for i in range(5)]))


def test_rows_that_are_longer_than_what_is_read_at_once(tmp_path: Path, way: str) -> None:
    arrays = [made("<f4", (3, 70_000), seed) for seed in range(2)]  # 280 kB a row
    arrays += [made("<f4", (3, 300), seed) for seed in range(2)]
    for some in (arrays[:2], arrays[2:]):
        dataset = fastpipe.ArrayList((written(tmp_path, some), [0, 0]), crop=(2, 150), seed=1)
        images = batch_of(dataset, 2)
        for index in range(2):
            crop = dataset.recipe(index).steps[0]
            piece = some[index][crop.top : crop.top + 2, crop.left : crop.left + 150]
            assert np.array_equal(images[index].numpy(), piece)


def test_fortran_order_and_other_headers(tmp_path: Path, way: str) -> None:
    """A file that says the same in another way is read the slow way, also in the middle of a batch."""
    arrays = [made("<f4", (4, 6), seed) for seed in range(4)]
    paths = written(tmp_path, arrays)
    np.save(paths[1], np.asfortranarray(arrays[1]))
    np.save(paths[2], arrays[2].astype(">f4"))
    with open(paths[3], "wb") as file:
        np.lib.format.write_array(file, arrays[3], version=(2, 0))
    for order in ([0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1]):
        dataset = fastpipe.ArrayList(([paths[at] for at in order], order))
        assert torch.equal(batch_of(dataset, 4), expected([arrays[at] for at in order]))
        cropped = fastpipe.ArrayList(([paths[at] for at in order], order), crop=(4, 6))
        assert torch.equal(batch_of(cropped, 4), expected([arrays[at] for at in order]))


def test_shapes_that_differ(tmp_path: Path, way: str) -> None:
    paths = written(tmp_path, [made("<f4", (4, 6), 0), made("<f4", (5, 6), 1)])
    said = r"several shapes, \(4, 6\) and \(5, 6\)"
    if way == "core":
        said = r"001\.npy holds float32 \(5, 6\), where other files hold float32 \(4, 6\)"
    with pytest.raises(DatasetError if way == "core" else RuntimeError, match=said):
        batch_of(fastpipe.ArrayList((paths, [0, 0])), 2)
    assert batch_of(fastpipe.ArrayList((paths, [0, 0]), crop=(3, 3)), 2).shape == (2, 3, 3)
    listed = batch_of(fastpipe.ArrayList((paths, [0, 0])), 2, collate_fn=lambda samples: (samples, None))
    assert [tuple(image.shape) for image, _ in listed] == [(4, 6), (5, 6)]
    with pytest.raises(ValueError, match="crop size"):
        batch_of(fastpipe.ArrayList((paths, [0, 0]), crop=(5, 5)), 2)


@pytest.mark.parametrize("kind", ["folder", "zip", "tar"])
def test_folders_archives_workers_and_pickles(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "train"
    arrays = {}
    for number in range(6):
        path = root / f"class{number % 2}/{number}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays[path.name] = made(">f4", (3, 8, 8), number)
        np.save(path, arrays[path.name])
    (root / "class0/readme.txt").write_text("no array")
    place = {"folder": root, "zip": tmp_path / "a.zip", "tar": tmp_path / "a.tar"}[kind]
    if kind != "folder":
        {"zip": archives.zipped, "tar": archives.tarred}[kind](root, place)
    dataset = pickle.loads(pickle.dumps(fastpipe.ArrayFolder(place, seed=0)))
    assert dataset.classes == ["class0", "class1"]
    names = [Path(path).name for path, _ in dataset.samples]
    wanted = expected([arrays[name] for name in names])
    for options in ({}, {"threads": 2}, {"num_workers": 1}):
        batches = [images.clone() for images, _ in fastpipe.DataLoader(dataset, batch_size=4, **options)]
        assert torch.equal(torch.cat(batches), wanted)
    stock = torch.utils.data.DataLoader(dataset, batch_size=6)
    assert torch.equal(next(iter(stock))[0], wanted)
    half = next(iter(fastpipe.DataLoader(dataset, batch_size=6, dtype=torch.bfloat16)))[0]
    assert torch.equal(half, wanted.to(torch.bfloat16))


def test_a_transform_gets_the_tensor(tmp_path: Path) -> None:
    arrays = [made("<f4", (2, 3), seed) for seed in range(3)]
    dataset = fastpipe.ArrayList((written(tmp_path, arrays), [0] * 3), lambda tensor: tensor[:, :1] + 1)
    assert torch.equal(batch_of(dataset, 3), expected(arrays)[:, :, :1] + 1)


def spoil(paths: list[str]) -> None:
    Path(paths[1]).write_bytes(Path(paths[1]).read_bytes()[:-1])
    Path(paths[2]).write_bytes(b"no array")
    Path(paths[3]).unlink()
    np.save(paths[4], np.array([{}], object), allow_pickle=True)
    Path(paths[5]).write_bytes(b"")


@pytest.mark.parametrize("crop", [None, (2, 2)])
def test_bad_files_are_named_and_left_out(tmp_path: Path, way: str, crop: Any) -> None:
    arrays = [made("<f4", (4, 6), seed) for seed in range(8)]
    paths = written(tmp_path, arrays)
    dataset = fastpipe.ArrayList((paths, [0] * 8), crop=crop)
    spoil(paths)
    for index, reason in ((1, "takes 96"), (2, "doesn't begin as"), (4, "Python objects"), (5, "doesn't begin as")):
        with pytest.raises(DecodeError, match=f"00{index}.npy.*{reason}"):
            dataset[index]
        with pytest.raises(DecodeError, match=f"00{index}.npy.*{reason}"):
            batch_of(dataset.subset([0, index]), 2)
    with pytest.raises(FileNotFoundError) as caught:
        dataset[3]
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, paths[3])
    careful = fastpipe.ArrayList((paths, [0] * 8), crop=crop, on_error="skip", max_bad_fraction=1.0, seed=0)
    with pytest.warns(FastpipeWarning, match="5 left out"):
        found = batch_of(careful, 8)
    sound = [careful[index][0] for index in (0, 6, 7)]
    assert torch.equal(found, torch.stack(sound))
    replaced = fastpipe.ArrayList((paths, [0] * 8), crop=crop, on_error="replace", max_bad_fraction=1.0, seed=0)
    with pytest.warns(FastpipeWarning, match="5 replaced by others"):
        assert batch_of(replaced, 8).shape[0] == 8


def test_what_cannot_be(tmp_path: Path) -> None:
    paths = written(tmp_path, [made("<f4", (4,), 0)])
    for options, message in (
        ({"dtype": "f4"}, "both dtype= and shape="),
        ({"dtype": "O", "shape": (1,)}, "Python objects"),
        ({"dtype": "U3", "shape": (1,)}, "no numbers"),
        ({"dtype": "nonsense", "shape": (1,)}, "nonsense"),
        ({"dtype": "f4", "shape": (-1,)}, "from 0"),
    ):
        with pytest.raises(DatasetError, match=message):
            fastpipe.ArrayList((paths, [0]), **options)
    with pytest.raises(DatasetError, match="at least two axes"):
        batch_of(fastpipe.ArrayList((paths, [0]), crop=2), 1)


def test_the_tools_for_images_say_so(tmp_path: Path) -> None:
    dataset = fastpipe.ArrayList((written(tmp_path, [made("<f4", (4,), 0)]), [0]))
    with pytest.raises(DatasetError, match="examines images, and ArrayList holds arrays"):
        fastpipe.check(dataset, progress=False)
    with pytest.raises(DatasetError, match="ArrayList holds arrays"):
        fastpipe.doctor(dataset)


@pytest.mark.needs_core
def test_the_core_checks_what_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(bytes(range(24)))
    out = np.zeros(24, np.uint8)
    sound = core.ArrayForm(b"\0\1", 1, 2, 11)

    def status(form: core.ArrayForm, window: tuple[int, int, int, int]) -> core.Status:
        with core.Pool(1) as pool:
            return core.Status(core.read_arrays(form, [core.ArrayPart(str(path), window, out.ctypes.data)], pool)[0])

    assert status(sound, (0, 0, 2, 11)) == core.Status.OK
    assert out[:22].tolist() == list(range(2, 24))
    assert status(sound, (1, 3, 1, 2)) == core.Status.OK
    assert out[:2].tolist() == [16, 17]
    assert status(sound._replace(header=b"\0\2"), (0, 0, 2, 11)) == core.Status.UNUSUAL_HEADER
    assert status(sound._replace(width=12), (0, 0, 2, 12)) == core.Status.TRUNCATED
    for window in ((0, 0, 3, 11), (0, 0, 2, 12), (-1, 0, 1, 1), (0, -1, 1, 1), (1, 0, 2, 11), (0, 11, 1, 1)):
        assert status(sound, window) == core.Status.BAD_REGION
    assert status(sound._replace(item=3), (0, 0, 1, 3)) == core.Status.BAD_OPERATION
    assert status(sound._replace(item=4), (0, 0, 1, 3)) == core.Status.BAD_OPERATION
    assert status(sound._replace(planes=2**40, height=2**20), (0, 0, 1, 1)) == core.Status.TOO_LARGE

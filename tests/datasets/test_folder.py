"""ImageFolder against torchvision's: listing, attributes, errors, samples for the same seeds, DataLoader workers."""

from __future__ import annotations

import io
import os
import pickle
import random
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch.utils.data import DataLoader
from torchvision_here import torchvision

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import DecodeError, FastpipeWarning, UnknownReaderError

TV = torchvision.transforms
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def photo(height: int, width: int, seed: int) -> Image.Image:
    """Smooth colours with some noise, as a photo has."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)).resize((width, height), Image.BICUBIC)
    noise = rng.integers(-9, 10, (height, width, 3))
    return Image.fromarray((np.asarray(coarse).astype(int) + noise).clip(0, 255).astype(np.uint8))


def write(path: Path, image: Image.Image, **options: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    write(root / "ants/444.jpg", photo(181, 240, 1), quality=92, subsampling=0)
    write(root / "ants/deep/420.JPEG", photo(240, 177, 2), quality=90, subsampling=2)
    write(root / "ants/progressive.jpeg", photo(99, 301, 3), quality=85, progressive=True)
    write(root / "bees/gray.jpg", photo(150, 131, 4).convert("L"), quality=90)
    write(root / "bees/tiny.png", photo(1, 1, 5))
    write(root / "bees/small.png", photo(31, 17, 6))
    write(root / "bees/alpha.png", photo(60, 40, 7).convert("RGBA"))
    write(root / "wasps/lossy.webp", photo(120, 160, 8), quality=80)
    write(root / "wasps/palette.png", photo(50, 64, 9).convert("P"))
    write(root / "wasps/cmyk.jpg", photo(50, 64, 10).convert("CMYK"))
    turned = Image.Exif()
    turned[0x0112] = 6
    write(root / "wasps/turned.jpg", photo(80, 120, 11), quality=90, exif=turned)
    write(root / "wasps/camera.tiff", photo(41, 43, 12))
    (root / "wasps/notes.txt").write_text("not an image")
    return root


def pipelines(M):
    """The same pipelines from either package; some can't be planned to their end."""
    return {
        "train": M.Compose([M.RandomResizedCrop(64), M.RandomHorizontalFlip(), M.ToTensor()]),
        "train, uint8": M.Compose([M.RandomResizedCrop(48), M.RandomHorizontalFlip(), M.PILToTensor()]),
        "evaluation": M.Compose([M.Resize(40), M.CenterCrop(32), M.ToTensor()]),
        "flips first": M.Compose(
            [M.RandomHorizontalFlip(), M.RandomVerticalFlip(), M.RandomResizedCrop((30, 50)), M.PILToTensor()]
        ),
        "padded crop": M.Compose([M.RandomCrop(32, padding=4, pad_if_needed=True, fill=9), M.PILToTensor()]),
        "pad": M.Compose([M.Pad((1, 2, 3, 4), padding_mode="edge"), M.CenterCrop(50), M.PILToTensor()]),
        "float": M.Compose([M.Resize((33, 21)), M.PILToTensor(), M.ConvertImageDtype(torch.float32)]),
        "nested": M.Compose([M.Compose([M.RandomResizedCrop(20)]), M.Compose([M.RandomVerticalFlip(), M.ToTensor()])]),
        "foreign": M.Compose([M.RandomResizedCrop(20), M.Lambda(lambda image: image.rotate(90)), M.ToTensor()]),
        "image out": M.Compose([M.RandomResizedCrop(20), M.RandomHorizontalFlip()]),
    }


def as_levels(sample: object) -> np.ndarray:
    """A sample as numbers on the scale of 0 to 255."""
    if isinstance(sample, torch.Tensor):
        return sample.double().numpy() * (255 if sample.is_floating_point() else 1)
    return np.asarray(sample).astype(float)


@pytest.mark.parametrize("name", pipelines(T))
def test_samples_equal_torchvisions_for_the_same_seed(root, name):
    ours = fastpipe.ImageFolder(root, pipelines(T)[name])
    theirs = torchvision.datasets.ImageFolder(root, pipelines(TV)[name])
    for seed in range(6):
        for index in range(len(theirs)):
            torch.manual_seed(seed)
            expected, expected_target = theirs[index]
            state = torch.get_rng_state()
            torch.manual_seed(seed)
            sample, target = ours[index]
            assert type(sample) is type(expected)
            assert target == expected_target
            assert torch.equal(torch.get_rng_state(), state)
            assert as_levels(sample).shape == as_levels(expected).shape
            assert np.abs(as_levels(sample) - as_levels(expected)).max() <= 1 + 1e-4, ours.samples[index]
            if isinstance(sample, torch.Tensor):
                assert sample.dtype == expected.dtype
                assert sample.is_contiguous()


def _noisy(image: torch.Tensor) -> torch.Tensor:
    return image + torch.randn_like(image)  # in memory's order


@pytest.mark.parametrize("reader", [None, "pil"])
@pytest.mark.parametrize("rows", [True, False])
def test_noise_falls_on_the_same_pixels(root, reader, rows):
    """`PILToTensor` leaves a tensor in rows of pixels, `ToTensor` in planes."""

    def chain(module):
        tensor = [module.PILToTensor(), module.ConvertImageDtype(torch.float32)] if rows else [module.ToTensor()]
        return module.Compose([module.RandomResizedCrop(20), *tensor, module.Normalize([0.5], [0.2]), _noisy])

    ours = fastpipe.ImageFolder(root, chain(T), reader=reader)
    theirs = torchvision.datasets.ImageFolder(root, chain(torchvision.transforms))
    for index in range(len(theirs)):
        torch.manual_seed(index)
        found = ours[index][0]
        torch.manual_seed(index)
        assert torch.equal(found, theirs[index][0])


def test_normalised_sample_is_the_normalised_levels_bit_for_bit(root):
    """The fused look-up against torchvision's ToTensor and Normalize on the very pixels that were decoded."""
    crop = [T.RandomResizedCrop(32), T.RandomHorizontalFlip()]
    levels = fastpipe.ImageFolder(root, T.Compose(crop))
    fused = fastpipe.ImageFolder(root, T.Compose([*crop, T.ToTensor(), T.Normalize(MEAN, STD)]))
    theirs = TV.Compose([TV.ToTensor(), TV.Normalize(MEAN, STD)])
    for index in range(len(levels)):
        torch.manual_seed(index)
        expected = theirs(levels[index][0])
        torch.manual_seed(index)
        assert torch.equal(fused[index][0], expected)


def test_normalize_takes_numbers_in_any_shape_and_batches_see_its_changes(root):
    """Steps that draw nothing are worked out once for a batch."""
    resize = T.Resize((20, 30))
    transform = T.Normalize([[[one]] for one in MEAN], [[[one]] for one in STD])
    dataset = fastpipe.ImageFolder(root, T.Compose([resize, T.ToTensor(), transform]))
    whole = TV.Compose([TV.ToTensor(), TV.Normalize(MEAN, STD)])
    images = [resize(Image.open(path).convert("RGB")) for path, _ in dataset.samples[:3]]
    for expected in (whole, TV.Compose([TV.ToTensor(), TV.Normalize([0.1] * 3, [0.7] * 3)])):
        for (sample, _), image in zip(dataset.__getitems__([0, 1, 2]), images, strict=True):
            assert torch.equal(sample, expected(image))
        transform.mean, transform.std = [0.1] * 3, [0.7] * 3


def test_without_a_transform_a_sample_is_the_image(root):
    ours, theirs = fastpipe.ImageFolder(root), torchvision.datasets.ImageFolder(root)
    for index in range(len(theirs)):
        sample, expected = ours[index][0], theirs[index][0]
        assert isinstance(sample, Image.Image)
        assert sample.mode == expected.mode
        np.testing.assert_array_equal(np.asarray(sample), np.asarray(expected))


def test_attributes_are_torchvisions(root):
    ours = fastpipe.ImageFolder(str(root), T.Compose([T.CenterCrop(3)]), target_transform=abs)
    theirs = torchvision.datasets.ImageFolder(str(root), TV.Compose([TV.CenterCrop(3)]), target_transform=abs)
    for name in ("classes", "class_to_idx", "samples", "imgs", "targets", "root"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.extensions == (*theirs.extensions, ".fpj")  # packed images count, too
    assert len(ours) == len(theirs)
    assert repr(ours) == repr(theirs)
    assert repr(fastpipe.ImageFolder(root)) == repr(torchvision.datasets.ImageFolder(root))
    image, target = ours.transforms(Image.new("RGB", (9, 9)), -2)
    assert (image.size, target) == ((3, 3), 2)


def test_options_are_torchvisions(root):
    def only_png(path):
        return path.endswith("png")

    def load(path):
        return Image.open(path).convert("L")

    arguments = {"is_valid_file": only_png, "loader": load, "allow_empty": True}
    ours = fastpipe.ImageFolder(root, T.PILToTensor(), **arguments)
    theirs = torchvision.datasets.ImageFolder(root, TV.PILToTensor(), **arguments)
    assert ours.samples == theirs.samples
    assert ours.extensions is None
    assert all(torch.equal(a[0], b[0]) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.skipif(sys.platform == "win32", reason="making symbolic links needs a privilege there")
def test_links_and_nested_folders_are_listed_in_torchvisions_order(root, tmp_path):
    for name in ("b/x.jpg", "b/a/y.jpg", "b/a.d/z.jpg", "B/q.png", "_/1.jpg", "_/10.jpg", "_/2.jpg"):
        write(tmp_path / name, photo(5, 6, 0))
    os.symlink(root / "ants", tmp_path / "b" / "linked")
    os.symlink(root / "bees", tmp_path / "linked_class")
    assert fastpipe.ImageFolder(tmp_path).samples == torchvision.datasets.ImageFolder(tmp_path).samples


def test_subclass_overrides_work_as_in_torchvision(root):
    class TwoClasses(fastpipe.ImageFolder):
        def find_classes(self, directory):
            return ["bees", "wasps"], {"bees": 1, "wasps": 0}

    dataset = TwoClasses(root)
    assert {target for _, target in dataset.samples} == {0, 1}
    assert all(("bees" in path) == (target == 1) for path, target in dataset.samples)


class TestErrors:
    def test_no_such_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
            fastpipe.ImageFolder(tmp_path / "nowhere")

    def test_a_file(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(NotADirectoryError, match="file is not a folder"):
            fastpipe.ImageFolder(tmp_path / "file")

    def test_no_class_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="Couldn't find any class folder"):
            fastpipe.ImageFolder(tmp_path)

    def test_empty_class(self, tmp_path):
        write(tmp_path / "full/a.png", photo(3, 3, 0))
        (tmp_path / "empty").mkdir()
        with pytest.raises(FileNotFoundError, match=r"no valid file for the classes empty\. Supported extensions"):
            fastpipe.ImageFolder(tmp_path)
        assert len(fastpipe.ImageFolder(tmp_path, allow_empty=True)) == 1

    def test_unknown_reader(self, root):
        with pytest.raises(UnknownReaderError, match="nosuch"):
            fastpipe.ImageFolder(root, reader="nosuch")

    @pytest.mark.parametrize("content", [b"", b"no image at all", b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n"])
    def test_bad_file_is_named(self, tmp_path, content):
        (tmp_path / "class").mkdir()
        (tmp_path / "class" / "bad.jpg").write_bytes(content)
        dataset = fastpipe.ImageFolder(tmp_path, T.Compose([T.RandomResizedCrop(8), T.ToTensor()]))
        with pytest.raises(DecodeError, match=r"bad\.jpg"):
            dataset[0]

    def test_truncated_file_is_an_error_even_where_the_crop_is_whole(self, root, tmp_path):
        data = (root / "ants/444.jpg").read_bytes()
        (tmp_path / "class").mkdir()
        (tmp_path / "class" / "cut.jpg").write_bytes(data[: len(data) * 2 // 3])
        dataset = fastpipe.ImageFolder(tmp_path, T.Compose([T.Lambda(lambda i: i)]))
        with pytest.raises(DecodeError, match=r"cut\.jpg"):
            dataset[0]
        top = fastpipe.ImageFolder(tmp_path, T.Compose([T.RandomCrop(4), T.ToTensor()]))
        with pytest.raises(DecodeError, match=r"cut\.jpg"):
            top[0]


def test_apply_exif_turns_images_upright(root):
    transform = T.Compose([T.RandomCrop(40), T.PILToTensor()])
    upright = fastpipe.ImageFolder(root, transform, apply_exif=True)
    index = next(i for i, (path, _) in enumerate(upright.samples) if path.endswith("turned.jpg"))
    torch.manual_seed(3)
    turned = ImageOps.exif_transpose(Image.open(upright.samples[index][0])).convert("RGB")
    expected = TV.Compose([TV.RandomCrop(40), TV.PILToTensor()])(turned)
    torch.manual_seed(3)
    assert torch.equal(upright[index][0], expected)
    assert upright.recipe(index).shape.size == turned.size[::-1]


def test_changing_the_transform_takes_effect(root):
    dataset = fastpipe.ImageFolder(root, T.Compose([T.CenterCrop(8), T.PILToTensor()]))
    assert dataset[0][0].shape == (3, 8, 8)
    dataset.transform.transforms.insert(1, T.CenterCrop(5))
    assert dataset[0][0].shape == (3, 5, 5)
    dataset.transform = T.Compose([T.CenterCrop(4), T.PILToTensor()])
    assert dataset[0][0].shape == (3, 4, 4)


def test_recipe_is_what_the_next_sample_is_made_by(root):
    dataset = fastpipe.ImageFolder(root, T.Compose([T.RandomCrop(16), T.RandomHorizontalFlip(), T.PILToTensor()]))
    whole = fastpipe.ImageFolder(root)
    torch.manual_seed(0)
    recipe = dataset.recipe(0)
    torch.manual_seed(0)
    sample = dataset[0][0]
    image = whole[0][0]
    for step in pickle.loads(pickle.dumps(recipe)):
        image = step.apply(image)
    assert torch.equal(image, sample)
    assert "crop(" in str(recipe)


def test_samples_do_not_share_memory(root):
    dataset = fastpipe.ImageFolder(root, T.Compose([T.CenterCrop(20), T.PILToTensor()]))
    first = dataset[0][0]
    kept = first.clone()
    for index in range(1, len(dataset)):
        dataset[index]
    assert torch.equal(first, kept)


METHODS = ["fork", "forkserver", "spawn"] if sys.platform != "win32" else ["spawn"]
same_size = T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_workers_give_what_torchvisions_workers_give(root, method):
    workers = 2 if method == "fork" else 1  # each imports torch

    def batches(dataset):
        loader = DataLoader(
            dataset,
            batch_size=5,
            shuffle=True,
            num_workers=workers,
            multiprocessing_context=method,
            generator=torch.Generator().manual_seed(4),
        )
        return list(loader)

    ours = batches(fastpipe.ImageFolder(root, same_size))
    if method != "fork":  # the other methods would have to import torchvision through its shim in each worker
        expected = list(
            DataLoader(
                fastpipe.ImageFolder(root, same_size),
                batch_size=5,
                shuffle=True,
                num_workers=workers,
                generator=torch.Generator().manual_seed(4),
            )
        )
        assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(ours, expected, strict=True))
        return
    M = TV
    theirs = batches(
        torchvision.datasets.ImageFolder(
            root, M.Compose([M.RandomResizedCrop(24), M.RandomHorizontalFlip(), M.ToTensor(), M.Normalize(MEAN, STD)])
        )
    )
    for (images, targets), (expected, expected_targets) in zip(ours, theirs, strict=True):
        assert torch.equal(targets, expected_targets)
        assert (images - expected).abs().max() <= 1.01 / 255 / min(STD)


def test_a_subclass_with_its_own_getitem_is_asked_by_every_loader(root):
    """torch's DataLoader prefers ``__getitems__``: a batch must not go around what the user wrote."""

    class Numbered(fastpipe.ImageFolder):
        def __getitem__(self, index):
            image, target = super().__getitem__(index)
            return image, target, index

    dataset = Numbered(root, T.Compose([T.CenterCrop(8), T.ToTensor()]))
    for loader in (DataLoader, fastpipe.DataLoader):
        images, _, indices = next(iter(loader(dataset, batch_size=len(dataset))))
        assert indices.tolist() == list(range(len(dataset)))
        assert images.shape == (len(dataset), 3, 8, 8)


def test_a_bad_config_file_is_told_when_the_dataset_is_made(root, tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text("[readers]\njpeg = \n")
    monkeypatch.setenv("FASTPIPE_CONFIG", str(tmp_path / "config.toml"))
    with pytest.warns(FastpipeWarning, match=r"config\.toml.*line 2"):
        dataset = fastpipe.ImageFolder(root, T.PILToTensor())
    assert dataset[0][0].dtype == torch.uint8


def test_pickled_dataset_keeps_reader_and_config(root):
    config = fastpipe.MachineConfig(readers={"jpeg": "pil"})
    dataset = fastpipe.ImageFolder(root, same_size, config=config, reader="pil")
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.config == config
    assert copy.reader == "pil"
    torch.manual_seed(1)
    expected = dataset[0][0]
    torch.manual_seed(1)
    assert torch.equal(copy[0][0], expected)


def test_nothing_global_moves(root):
    """Neither reading nor explaining touches thread counts, generators or Pillow's settings."""
    dataset = fastpipe.ImageFolder(root, T.Compose([T.CenterCrop(8), T.ToTensor()]))
    before = (torch.get_num_threads(), cv2.getNumThreads(), Image.MAX_IMAGE_PIXELS, random.getstate())
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    for index in range(len(dataset)):
        dataset[index]
    fastpipe.explain(fastpipe.ImageFolder(root, same_size))
    assert before == (torch.get_num_threads(), cv2.getNumThreads(), Image.MAX_IMAGE_PIXELS, random.getstate())
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == numpy_state).all()


def test_bytes_in_memory_are_read_like_files(root):
    buffer = io.BytesIO()
    photo(40, 50, 1).save(buffer, "JPEG")
    image = fastpipe.readers.read_image(buffer.getvalue(), region=(3, 4, 20, 30))
    expected = np.asarray(Image.open(buffer).convert("RGB"))[3:23, 4:34]
    np.testing.assert_array_equal(image, expected)


class Reversed:
    """A user's step: the channels in reverse, of an array."""

    def apply(self, image):
        return np.ascontiguousarray(image[..., ::-1])

    def output_shape(self, shape):
        return shape


class ReverseChannels:
    def draw(self, shape, generators):
        return (Reversed(),)


@pytest.mark.parametrize("then", [[], [T.ToTensor()]], ids=["PIL", "tensor"])
def test_a_step_of_the_users_gets_an_array_of_a_file(root, then):
    made = fastpipe.ImageFolder(root, T.Compose([T.CenterCrop(8), ReverseChannels(), *then]))[0][0]
    plain = fastpipe.ImageFolder(root, T.Compose([T.CenterCrop(8), *then]))[0][0]
    if then:
        assert torch.equal(made, plain.flip(0))
    else:
        np.testing.assert_array_equal(np.asarray(made), np.asarray(plain)[..., ::-1])

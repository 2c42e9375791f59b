"""One way to samples: what the core makes of a batch is what is made one by one, whatever is among the files."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from bad_files import spoil
from PIL import Image
from torchvision_here import torchvision

import fastpipe
from fastpipe import transforms as T
from fastpipe.datasets import ImageDataset
from fastpipe.executor import BatchSpec, ImageStages, SampleTask, Stage, StageTimes
from fastpipe.transforms import v2

pytestmark = pytest.mark.needs_core

COUNT = 24
made_one = ImageStages.make
TAIL = [T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
CHAINS: dict[str, Any] = {
    "training": T.Compose([T.RandomResizedCrop(24), *TAIL]),
    "uint8": T.Compose([T.RandomResizedCrop((20, 30)), T.RandomVerticalFlip(), T.PILToTensor()]),
    # All of the image, of which some are as large as the result: these aren't resized.
    "whole": T.Compose([T.RandomResizedCrop((32, 48), (1.0, 1.0), (1.5, 1.5)), T.RandomHorizontalFlip(), T.ToTensor()]),
    "v2": v2.Compose(
        [v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Sound files of many kinds, some turned, and the same with bad ones among them."""
    made = {name: tmp_path_factory.mktemp(name) for name in ("plain", "mixed", "turned", "bad")}
    for number in range(COUNT):
        larger = number % 4 * (1 + number % 5)
        size = (32 + 6 * larger, 48 + 9 * larger)
        picture = Image.fromarray(corpus.photo(*size, seed=number))
        turned = Image.Exif()
        turned[0x0112] = 1 + number % 8
        for name, folder in made.items():
            options: dict[str, Any] = {"exif": turned} if name == "turned" else {}
            kind = "png" if name == "mixed" and number % 5 == 1 else "bmp" if name == "mixed" and number == 7 else "jpg"
            image = picture.convert("L") if name == "mixed" and number % 5 == 2 else picture
            path = folder / f"class{number % 2}" / f"{number:02}.{kind}"
            path.parent.mkdir(exist_ok=True)
            data = io.BytesIO()
            image.save(data, {"jpg": "JPEG"}.get(kind, kind), progressive=number % 3 == 0, **options)
            path.write_bytes(data.getvalue())
            if name == "bad" and number in (3, 10):
                spoil(path, "mangled" if number == 3 else "truncated")
    return made


def made(dataset: ImageDataset, options: BatchSpec) -> list[torch.Tensor]:
    torch.manual_seed(3)
    found = []
    for epoch in range(3):
        if dataset.seed is not None:
            dataset.set_epoch(epoch)
        for start in range(0, COUNT, 9):
            batch: Any = dataset.batch([*range(start, min(start + 9, COUNT))], options)
            found += [batch.images.clone(), torch.tensor(batch.targets)]
            found += [torch.tensor(batch.normalize)] if batch.normalize else []
    return [*found, torch.get_rng_state()]


@pytest.mark.filterwarnings("ignore:.*can't be read")
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("kind", ["plain", "mixed", "turned", "bad"])
def test_the_core_makes_what_is_made_one_by_one(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, kind: str, seed: int | None, name: str
) -> None:
    dataset = fastpipe.ImageFolder(
        folders[kind],
        CHAINS[name],
        seed=seed,
        apply_exif=kind == "turned",
        on_error="skip" if kind == "bad" else "raise",
        max_bad_fraction=1.0,
    )
    for options in (
        BatchSpec(threads=2),
        BatchSpec(threads=0, dtype=torch.float16, channels_last=True),
        BatchSpec(threads=1, defer=True),
    ):
        left = []

        def noted(stages: ImageStages, task: SampleTask, out: Any, left: list[str] = left) -> None:
            left.append(task.path)
            made_one(stages, task, out)

        with monkeypatch.context() as patched:
            patched.setattr(ImageStages, "make", noted)
            by_core = made(dataset, options)
        assert {Path(path).suffix for path in left} <= {".bmp"} or kind == "bad"
        with monkeypatch.context() as patched:
            patched.setattr("fastpipe.executor.batch_executor.thread_resources", lambda threads: None)
            one_by_one = made(dataset, options)
        assert len(by_core) == len(one_by_one)
        assert all(torch.equal(one, other) for one, other in zip(by_core, one_by_one, strict=True))


@pytest.mark.filterwarnings("ignore:.*can't be read")
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("kind", ["plain", "mixed", "bad"])
def test_an_item_is_a_batch_of_one(folders: dict[str, Path], kind: str, seed: int | None, name: str) -> None:
    dataset = fastpipe.ImageFolder(
        folders[kind], CHAINS[name], seed=seed, on_error="skip" if kind == "bad" else "raise", max_bad_fraction=1.0
    )
    torch.manual_seed(2)
    items = [sample for index in range(COUNT) if (sample := dataset[index]) is not None]
    state = torch.get_rng_state()
    for threads in (0, 2):
        dataset.threads = threads
        torch.manual_seed(2)
        listed = dataset.__getitems__(list(range(COUNT)))
        assert torch.equal(torch.get_rng_state(), state)
        assert [target for _, target in listed] == [target for _, target in items]
        for (image, _), (expected, _) in zip(listed, items, strict=True):
            assert type(image) is type(expected)
            assert torch.equal(image, expected)


def test_what_changes_in_a_transform_takes_effect(folders: dict[str, Path]) -> None:
    theirs = torchvision.transforms
    crop, flip, numbers = T.RandomResizedCrop(32), T.RandomHorizontalFlip(0.0), T.Normalize([0.5] * 3, [0.5] * 3)
    dataset = fastpipe.ImageFolder(folders["plain"], T.Compose([crop, flip, T.ToTensor(), numbers]))
    for change in (
        lambda: None,
        lambda: setattr(crop, "scale", (0.9, 1.0)),
        lambda: setattr(crop, "size", (3, 4)),
        lambda: setattr(flip, "p", 1.0),
        lambda: numbers.mean.__setitem__(0, 0.1),
        lambda: dataset.transform.transforms.pop(),
    ):
        change()
        chain = [theirs.RandomResizedCrop(crop.size, crop.scale), theirs.RandomHorizontalFlip(flip.p)]
        chain += [theirs.ToTensor(), theirs.Normalize(numbers.mean, numbers.std)][
            : len(dataset.transform.transforms) - 2
        ]
        reference = torchvision.datasets.ImageFolder(str(folders["plain"]), theirs.Compose(chain))
        torch.manual_seed(4)
        expected = [reference[index][0] for index in range(6)]
        torch.manual_seed(4)
        assert all(torch.equal(dataset[index][0], one) for index, one in enumerate(expected))


def test_an_attribute_of_the_dataset_that_changes_takes_effect(folders: dict[str, Path]) -> None:
    dataset = fastpipe.ImageFolder(folders["turned"], T.Compose([T.Resize(20), T.ToTensor()]))
    straight = [tuple(dataset[index][0].shape) for index in range(8)]
    dataset.apply_exif = True
    turned = [tuple(dataset[index][0].shape) for index in range(8)]
    assert [shape != other for shape, other in zip(straight, turned, strict=True)] == [False, False, True, True] * 2
    dataset.target_transform = str
    assert dataset[0][1] == "0"


def test_a_batch_is_torchvisions(folders: dict[str, Path]) -> None:
    theirs = torchvision.transforms
    transform = theirs.Compose([theirs.RandomResizedCrop(24), theirs.RandomHorizontalFlip(), theirs.ToTensor()])
    reference = torchvision.datasets.ImageFolder(str(folders["plain"]), transform)
    ours = fastpipe.ImageFolder(folders["plain"], T.Compose([T.RandomResizedCrop(24), *TAIL[:2]]))
    torch.manual_seed(11)
    expected = torch.stack([reference[index][0] for index in range(COUNT)])
    torch.manual_seed(11)
    batch: Any = ours.batch([*range(COUNT)], BatchSpec(threads=2))
    assert torch.equal(batch.images, expected)
    assert batch.targets == reference.targets


def test_a_batch_that_does_not_fit_is_a_list(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of a batch that was begun are made again where another part of it is of another size."""
    crop = T.RandomResizedCrop(24)
    dataset = fastpipe.ImageFolder(folders["plain"], T.Compose([crop, *TAIL]), seed=0)
    monkeypatch.setattr("fastpipe.executor.batch_executor.CHUNK", 8)
    pending = dataset.submit(range(16), BatchSpec(threads=0))
    crop.size = (10, 12)
    samples: Any = pending.result()
    crop.size = (24, 24)
    alone = [dataset[index][0] for index in range(8)]
    assert [tuple(image.shape) for image, _ in samples] == [(3, 24, 24)] * 8 + [(3, 10, 12)] * 8
    assert all(torch.equal(image, one) for (image, _), one in zip(samples, alone, strict=False))


def test_samples_of_several_sizes_and_conversions_from_several_threads(folders: dict[str, Path]) -> None:
    """Where samples are made one by one, the sink of the last size is used again for the next of that size alone."""
    mean, std = [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]
    plain = fastpipe.ImageFolder(folders["plain"], T.ToTensor())
    steps = [T.ToTensor(), T.Normalize(mean, std)]
    normalized = fastpipe.ImageFolder(folders["plain"], T.Compose(steps))
    scale = [torch.tensor(values)[:, None, None] for values in (mean, std)]

    def wrong(number: int) -> list[int]:
        found = []
        for index in [*range(number, COUNT), *range(number)] * 3:
            pixels = np.asarray(Image.open(plain.samples[index][0]).convert("RGB"))
            wanted = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
            same = torch.equal(plain[index][0], wanted)
            if not (same and torch.equal(normalized[index][0], (wanted - scale[0]) / scale[1])):
                found.append(index)
        return found

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(wrong, range(0, COUNT, 5))) == [[]] * 5
    steps[1] = T.Normalize(std, mean)
    changed = fastpipe.ImageFolder(folders["plain"], T.Compose(steps))
    assert torch.equal(changed[0][0], (plain[0][0] - scale[1]) / scale[0])
    normalized.transform.transforms[1] = steps[1]
    assert torch.equal(normalized[0][0], changed[0][0])


def test_threads_of_rejected_images_end_with_their_batch(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    makers: set[threading.Thread] = set()

    def make(*given: Any) -> None:
        makers.add(threading.current_thread())
        made_one(*given)

    monkeypatch.setattr(ImageStages, "make", make)
    dataset = fastpipe.ImageFolder(folders["plain"], CHAINS["training"], reader="pil", threads=2)
    dataset.batch([*range(COUNT)], BatchSpec())
    assert makers
    assert threading.main_thread() not in makers
    assert not any(thread.is_alive() for thread in makers)


def test_measured_batches_add_to_the_row_that_was_given_last(folders: dict[str, Path]) -> None:
    dataset = fastpipe.ImageFolder(folders["plain"], CHAINS["training"])
    times = StageTimes(2)
    for process, count in ((0, 3), (1, 5)):
        dataset._fastpipe.measure(times.row(process))
        dataset.batch([*range(count)], BatchSpec())
    dataset._fastpipe.measure(None)
    dataset.batch([*range(7)], BatchSpec())
    assert [times.row(process)[Stage.IMAGES] for process in (0, 1)] == [3, 5]

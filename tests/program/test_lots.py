"""A batch's images made as one lot are those that are made one by one, whatever is among the files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import corpus
import pytest
import torch
from PIL import Image
from spoiled import spoil
from tv import torchvision

import fastpipe
from fastpipe import core
from fastpipe import transforms as T
from fastpipe.data import ImageDataset
from fastpipe.program import BatchOptions, Lot
from fastpipe.transforms import v2

pytestmark = pytest.mark.skipif(not core.available(), reason=core.why_not())

COUNT = 24
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


def made(dataset: ImageDataset, options: BatchOptions) -> list[torch.Tensor]:
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
def test_lots_are_what_is_made_one_by_one(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, kind: str, seed: int | None, name: str
) -> None:
    started: list[bool] = []
    start = Lot.start

    def noted(self: Lot, *arguments: Any) -> Any:
        found = start(self, *arguments)
        started.append(found is not None)
        return found

    monkeypatch.setattr(Lot, "start", noted)
    dataset = fastpipe.ImageFolder(
        folders[kind],
        CHAINS[name],
        seed=seed,
        apply_exif=kind == "turned",
        on_error="skip" if kind == "bad" else "raise",
        max_bad_fraction=1.0,
    )
    for options in (
        BatchOptions(threads=2),
        BatchOptions(threads=0, dtype=torch.float16, channels_last=True),
        BatchOptions(threads=1, defer=True),
    ):
        started.clear()
        lots = made(dataset, options)
        assert (True in started) is (kind != "turned")
        assert False not in started
        if kind == "plain":  # a third has no image that is as large as the result, and isn't resized
            assert len(started) == (3 if name == "whole" else 9)
        with monkeypatch.context() as patched:
            patched.setattr("fastpipe.data.lots.goes_straight", lambda dataset: False)
            one_by_one = made(dataset, options)
        assert len(lots) == len(one_by_one)
        assert all(torch.equal(one, other) for one, other in zip(lots, one_by_one, strict=True))


def test_a_lot_is_torchvisions(folders: dict[str, Path]) -> None:
    theirs = torchvision.transforms
    transform = theirs.Compose([theirs.RandomResizedCrop(24), theirs.RandomHorizontalFlip(), theirs.ToTensor()])
    reference = torchvision.datasets.ImageFolder(str(folders["plain"]), transform)
    ours = fastpipe.ImageFolder(folders["plain"], T.Compose([T.RandomResizedCrop(24), *TAIL[:2]]))
    torch.manual_seed(11)
    expected = torch.stack([reference[index][0] for index in range(COUNT)])
    torch.manual_seed(11)
    batch: Any = ours.batch([*range(COUNT)], BatchOptions(threads=2))
    assert torch.equal(batch.images, expected)
    assert batch.targets == reference.targets


def test_a_lot_that_does_not_fit_is_a_list(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of a lot that was begun are made again where another part of the batch is of another size."""
    crop = T.RandomResizedCrop(24)
    dataset = fastpipe.ImageFolder(folders["plain"], T.Compose([crop, *TAIL]), seed=0)
    monkeypatch.setattr("fastpipe.data.base._TOGETHER", 8)
    assembly = dataset.begun(range(16), BatchOptions(threads=0))
    assert assembly.step()
    crop.size = (10, 12)
    samples: Any = assembly.mended()
    crop.size = (24, 24)
    alone = [dataset[index][0] for index in range(8)]
    assert [tuple(image.shape) for image, _ in samples] == [(3, 24, 24)] * 8 + [(3, 10, 12)] * 8
    assert all(torch.equal(image, one) for (image, _), one in zip(samples, alone, strict=False))

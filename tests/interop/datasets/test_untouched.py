"""Torch's own loader over data sets that are known, with `fastpipe.install`: whole batches, and all as without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, UnidentifiedImageError
from plain_and_hooked import assert_as_plain, assert_same, epoch
from torch.utils.data import ConcatDataset, DataLoader, Subset, WeightedRandomSampler, random_split
from torchvision_here import module, torchvision

import fastpipe
from fastpipe.errors import FastpipeWarning
from fastpipe.hooks.ledger import LEDGER, Site

pytestmark = pytest.mark.usefixtures("fresh_account")
T = torchvision.transforms
NORMALIZE = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


def crops() -> Any:
    return T.Compose([T.RandomResizedCrop(40), T.RandomHorizontalFlip(), T.ToTensor(), NORMALIZE])


def site_of(name: str) -> Site:
    found = [site for site in LEDGER.total()[0] if site.kind == "dataset" and site.name.startswith(name)]
    assert len(found) == 1, found
    return found[0]


def recipes() -> dict[str, Any]:
    v2 = module("torchvision.transforms.v2")
    scaled = v2.ToDtype(torch.float32, scale=True)
    return {
        "train": crops(),
        "evaluation": T.Compose([T.Resize(44), T.CenterCrop(40), T.ToTensor(), NORMALIZE]),
        "uint8": T.Compose([T.RandomResizedCrop(40), T.PILToTensor()]),
        "jitter": T.Compose([T.RandomResizedCrop(40), T.ColorJitter(0.4, 0.4, 0.4), T.ToTensor(), T.RandomErasing()]),
        "wide": T.Compose([T.RandomResizedCrop(40), T.TrivialAugmentWide(), T.PILToTensor()]),
        "v2": v2.Compose([v2.RandomResizedCrop(40), v2.ToImage(), scaled]),
        "v2 tensors": v2.Compose([v2.PILToTensor(), v2.RandomResizedCrop(40, antialias=True), scaled]),
    }


class Importable(torchvision.datasets.ImageFolder):
    """Torchvision's data set, whose module a spawned worker imports as these tests do."""


class TestBatches:
    @pytest.mark.parametrize("name", recipes())
    @pytest.mark.parametrize("seed", [0, 1])
    def test_of_image_folder(self, make: Callable[..., Any], name: str, seed: int) -> None:
        dataset = make("ImageFolder", transform=recipes()[name])
        assert_as_plain(dataset, seed, batch_size=3, check=2)
        site = site_of("ImageFolder(")
        assert (site.images, site.checked, site.differed, site.left) == (8, 2, 0, {})

    @pytest.mark.parametrize("name", ["DatasetFolder", "Flowers102", "Food101"])
    def test_of_files(self, make: Callable[..., Any], name: str) -> None:
        options: dict[str, Any] = {"transform": crops()}
        if name == "DatasetFolder":
            folder = module("torchvision.datasets.folder")
            options |= {"loader": folder.default_loader, "extensions": (".jpg", ".png")}
        dataset = make(name, **options)
        assert_as_plain(dataset, batch_size=max(2, len(dataset) // 2))
        assert site_of(name).images

    @pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100", "FashionMNIST", "MNIST", "QMNIST", "SVHN", "STL10"])
    def test_of_arrays(self, make: Callable[..., Any], name: str) -> None:
        dataset = make(name, transform=T.Compose([T.RandomCrop(24, padding=4), T.ToTensor()]))
        assert_as_plain(dataset, batch_size=4, check=2)
        assert site_of(name).images >= 4

    def test_of_a_class_with_the_names_that_newer_pythons_give_it(self, make: Callable[..., Any]) -> None:
        names = {"__firstlineno__": 1, "__static_attributes__": ()}
        dataset = type("Own", (torchvision.datasets.ImageFolder,), names)(make("ImageFolder").root, crops())
        assert_as_plain(dataset, batch_size=2)
        assert site_of("Own(").images == 8

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_in_workers(self, make: Callable[..., Any], method: str) -> None:
        dataset = Importable(make("ImageFolder").root, crops())
        assert_as_plain(dataset, batch_size=2, num_workers=2, multiprocessing_context=method, check=1)
        site = site_of("Importable(")
        assert site.images == 8
        assert site.checked in (1, 2)  # a worker that starts after the other has made images goes on

    def test_of_uint8_in_workers(self, make: Callable[..., Any]) -> None:
        assert_as_plain(make("ImageFolder", transform=recipes()["uint8"]), batch_size=2, num_workers=2)

    def test_seeded_workers(self, make: Callable[..., Any]) -> None:
        generator = torch.Generator()
        dataset = make("ImageFolder", transform=crops())
        for workers in (0, 2):
            expected = epoch(dataset, 3, batch_size=3, num_workers=workers, generator=generator.manual_seed(5))[0]
            with fastpipe.install():
                made = epoch(dataset, 3, batch_size=3, num_workers=workers, generator=generator.manual_seed(5))[0]
            assert_same(made, expected)

    def test_within_torchs_wrappers(self, make: Callable[..., Any]) -> None:
        dataset = make("ImageFolder", transform=crops())
        other = make("ImageFolder", transform=dataset.transform)
        assert_as_plain(Subset(Subset(dataset, [5, 0, 3, 3, 6, 1]), [1, 0, 5, 4]), batch_size=2)
        assert_as_plain(random_split(dataset, [5, 3])[0], batch_size=2)
        assert_as_plain(ConcatDataset([dataset, Subset(other, [4, 2, 1])]), batch_size=4)
        other.transform = T.Compose([T.CenterCrop(40), T.ToTensor()])
        assert_as_plain(ConcatDataset([dataset, other]), batch_size=4)
        mixed = ConcatDataset([Subset(make("CIFAR10", transform=crops()), [0, 1, 2]), dataset])
        assert_as_plain(mixed, batch_size=2)

    def test_samplers(self, make: Callable[..., Any]) -> None:
        dataset = make("ImageFolder", transform=crops())
        assert_as_plain(dataset, shuffle=False, sampler=WeightedRandomSampler([1.0] * 8, 8), batch_size=4)
        assert_as_plain(dataset, shuffle=False, batch_size=1, batch_sampler=[[3, -1], [0, 0, 2], [4, 4]])
        assert_as_plain(dataset, batch_size=3, drop_last=True)
        assert_as_plain(dataset, batch_size=None)

    @pytest.mark.parametrize("workers", [0, 2])
    def test_own_collate_function(self, make: Callable[..., Any], workers: int) -> None:
        dataset = make("ImageFolder", transform=crops())
        assert_as_plain(dataset, batch_size=4, collate_fn=transposed, num_workers=workers)
        assert site_of("ImageFolder(").images == 8

    def test_of_timm(self, make: Callable[..., Any]) -> None:
        timm = pytest.importorskip("timm.data", reason="timm's data sets: pip install timm")
        root = make("ImageFolder").root
        dataset = timm.ImageDataset(str(root), transform=timm.create_transform(40, is_training=True))
        assert_as_plain(dataset, batch_size=4, check=1)
        site = site_of("ImageDataset")
        assert (site.images, site.left) == (8, {})


def transposed(samples: list[Any]) -> Any:
    return tuple(zip(*samples, strict=True))


class TestChangesOfTheDataSet:
    """A change between two batches holds for the second."""

    def batches(self, dataset: Any, change: Callable[[Any], None]) -> list[Any]:
        torch.manual_seed(0)
        made = []
        for number, batch in enumerate(DataLoader(dataset, batch_size=2)):
            made.append(batch)
            if number == 1:
                change(dataset)
        return made

    @pytest.mark.parametrize(
        "change",
        [
            lambda dataset: setattr(dataset, "transform", T.Compose([T.CenterCrop(40), T.ToTensor()])),
            lambda dataset: dataset.transform.transforms.insert(1, T.RandomRotation(30)),
            lambda dataset: setattr(dataset.transform.transforms[0], "scale", (0.9, 1.0)),
            lambda dataset: dataset.samples.reverse(),
            lambda dataset: dataset.samples.__setitem__(5, (dataset.samples[0][0], 7)),
            lambda dataset: setattr(dataset, "samples", dataset.samples[::-1]),
            lambda dataset: setattr(dataset, "target_transform", lambda target: target + 10),
            lambda dataset: setattr(dataset, "loader", lambda path: Image.new("RGB", (50, 50), (1, 2, 3))),
        ],
    )
    def test_of_files(self, make: Callable[..., Any], change: Callable[[Any], None]) -> None:
        root = make("ImageFolder").root
        expected = self.batches(torchvision.datasets.ImageFolder(root, crops()), change)
        with fastpipe.install(check=0):
            made = self.batches(torchvision.datasets.ImageFolder(root, crops()), change)
        assert_same(made, expected)

    @pytest.mark.parametrize(
        "change",
        [
            lambda dataset: dataset.data.fill(7),
            lambda dataset: dataset.targets.reverse(),
            lambda dataset: setattr(dataset, "data", 255 - dataset.data),
            lambda dataset: setattr(dataset, "targets", [9] * len(dataset)),
            lambda dataset: setattr(dataset, "transform", T.Compose([T.CenterCrop(16), T.PILToTensor()])),
        ],
    )
    def test_of_arrays(self, make: Callable[..., Any], change: Callable[[Any], None]) -> None:
        root = make("CIFAR10").root
        augment = T.Compose([T.RandomCrop(24), T.ToTensor()])
        expected = self.batches(torchvision.datasets.CIFAR10(root, transform=augment), change)
        with fastpipe.install(check=0):
            made = self.batches(torchvision.datasets.CIFAR10(root, transform=augment), change)
        assert_same(made, expected)

    def test_the_data_set_stays_as_it_was(self, make: Callable[..., Any]) -> None:
        dataset = make("ImageFolder", transform=crops())
        before = dict(vars(dataset))
        with fastpipe.install():
            epoch(dataset, batch_size=3)
        assert vars(dataset) == before
        assert all(vars(dataset)[name] is value for name, value in before.items())


class Counting(torchvision.datasets.ImageFolder):
    """Says itself what a sample is."""

    asked = 0

    def __getitem__(self, index: int) -> Any:
        self.asked += 1
        return super().__getitem__(index)


class TestCodeOfTheUsers:
    def test_own_getitem_is_asked_for_each_sample_once(self, make: Callable[..., Any]) -> None:
        dataset = Counting(make("ImageFolder").root, crops())
        assert_as_plain(dataset, batch_size=3, check=2)
        assert dataset.asked == 16

    def test_a_callable_runs_once_for_each_sample(self, make: Callable[..., Any]) -> None:
        calls: list[Any] = []
        dataset = make(
            "ImageFolder", transform=T.Compose([T.CenterCrop(40), lambda image: calls.append(0) or image, T.ToTensor()])
        )
        with fastpipe.install(check=3):
            epoch(dataset, batch_size=3)
        assert len(calls) == 8

    def test_a_target_transform_runs_once_for_each_sample(self, make: Callable[..., Any]) -> None:
        calls: list[Any] = []
        dataset = make("ImageFolder", transform=crops(), target_transform=lambda target: calls.append(0) or target)
        Path(dataset.samples[5][0]).write_bytes(b"no image")
        with fastpipe.install(check=3), pytest.raises(UnidentifiedImageError):
            epoch(dataset, batch_size=8, shuffle=False)
        assert len(calls) == 5
        (reason,) = site_of("ImageFolder(").left
        assert "target_transform" in reason


class TestFailures:
    @pytest.mark.parametrize("content", [b"no image", None])
    def test_errors_and_end_states_are_torchvisions(self, make: Callable[..., Any], content: bytes | None) -> None:
        dataset = make("ImageFolder", transform=crops())
        path = Path(dataset.samples[5][0])
        path.unlink() if content is None else path.write_bytes(content)
        found = []
        for _ in range(2):
            torch.manual_seed(0)
            batches = iter(DataLoader(dataset, batch_size=4))
            next(batches)
            with pytest.raises(OSError, match=path.name) as caught:
                next(batches)
            found.append((type(caught.value), str(caught.value), torch.get_rng_state().tolist()))
            fastpipe.install(check=0)
        assert found[0] == found[1]
        assert "one by one" in next(iter(site_of("ImageFolder(").left))

    def test_a_batch_that_differs_is_the_librarys(
        self, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        known_batches = module("fastpipe.hooks.torch.known_batches")
        dataset = make("ImageFolder", transform=crops())
        expected, state = epoch(dataset, batch_size=4)
        monkeypatch.setattr(known_batches._Files, "sample", lambda self, index: (self._rows[index][0], 5))
        with fastpipe.install(), pytest.warns(FastpipeWarning, match=r"ImageFolder\(.*gave other values"):
            made, after = epoch(dataset, batch_size=4)
        assert_same(made, expected)
        assert after.draws_like(state)
        site = site_of("ImageFolder(")
        assert site.is_off
        assert (site.checked, site.differed) == (1, 1)

    def test_draws_that_differ_are_seen(self, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
        ours = module("fastpipe.datasets").ImageDataset
        one = ours.__getitem__
        monkeypatch.setattr(ours, "__getitem__", lambda *given: (one(*given), torch.rand(1))[0])
        dataset = make("ImageFolder", transform=crops())
        with fastpipe.install(), pytest.warns(FastpipeWarning, match="random generator"):
            epoch(dataset, batch_size=4)

    def test_images_make_no_batch(self, make: Callable[..., Any]) -> None:
        dataset = make("ImageFolder", transform=T.CenterCrop(40))
        with fastpipe.install(), pytest.raises(TypeError, match="default_collate: batch must contain"):
            epoch(dataset)


def test_own_stacking_of_tensors_is_asked(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    collate = module("torch.utils.data._utils.collate")

    def mine(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return np.stack([np.asarray(one) for one in batch])

    monkeypatch.setitem(collate.default_collate_fn_map, torch.Tensor, mine)
    (batch, *_) = assert_as_plain(make("ImageFolder", transform=crops()), batch_size=4)
    assert isinstance(batch[0], np.ndarray)

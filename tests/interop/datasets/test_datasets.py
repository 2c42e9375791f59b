"""`convert` of torchvision's data sets: the same samples, targets, attributes and states of the generators."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision_here
from PIL import Image
from recipe_conformance import flat, seed_all, states
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset, random_split

import fastpipe
from fastpipe import transforms as T
from fastpipe.datasets import ImageArray
from fastpipe.errors import DatasetError
from fastpipe.loading.collate import users_collate

torchvision = torchvision_here.torchvision
V1 = torchvision.transforms
V2 = torchvision_here.module("torchvision.transforms.v2")
Make = Callable[..., Any]

FILES = ("DatasetFolder", "Flowers102", "Food101", "ImageFolder", "ImageNet")
JOINT = ("CocoDetection", "VOCDetection", "VOCSegmentation")
ARRAYS = ("CIFAR10", "CIFAR100", "EMNIST", "FashionMNIST", "KMNIST", "MNIST", "QMNIST", "STL10", "SVHN")
ATTRIBUTES = ("classes", "class_to_idx", "targets", "samples", "imgs", "labels", "root")
ATTRIBUTES += ("wnids", "wnid_to_idx", "attr_names", "bin_classes", "split", "ids", "images", "masks")


def options_of(name: str) -> dict[str, Any]:
    loader = torchvision.datasets.folder.default_loader
    return {"loader": loader, "extensions": (".jpg", ".png")} if name == "DatasetFolder" else {}


def crops() -> Any:
    crop = V1.RandomCrop(24, padding=3, pad_if_needed=True)
    return V1.Compose([crop, V1.RandomHorizontalFlip(), V1.ToTensor(), V1.Normalize(0.5, 0.2)])


def plus_seven(target: Any) -> Any:
    return target + 7 if isinstance(target, int) else target


def assert_same(theirs: Any, ours: Any, seed: int = 0) -> None:
    """Asserts that samples, attributes and the states of the generators are the same."""
    assert len(ours) == len(theirs)
    results = []
    for dataset in (theirs, ours):
        seed_all(seed)
        results.append(([flat(dataset[index]) for index in range(len(dataset))], states()))
    for one, other in zip(*(samples for samples, _ in results), strict=True):
        assert one == other
    assert results[0][1] == results[1][1]
    for name in ATTRIBUTES:
        if hasattr(theirs, name):
            one, other = getattr(ours, name), getattr(theirs, name)
            assert flat(type(other)(one) if isinstance(other, list) else one) == flat(other), name


@pytest.mark.parametrize("name", FILES + ARRAYS)
def test_images_with_a_target_are_the_same(make: Make, name: str):
    theirs = make(name, transform=crops(), target_transform=plus_seven, **options_of(name))
    ours = fastpipe.convert(theirs)
    assert isinstance(ours, fastpipe.datasets.ImageDataset)
    assert isinstance(ours, type(theirs))
    assert ours.transform is theirs.transform
    assert ours.target_transform is plus_seven
    assert ours.pipeline.unplanned == ()
    assert_same(theirs, ours)
    assert_same(theirs, pickle.loads(pickle.dumps(ours)), seed=1)


@pytest.mark.parametrize("name", FILES + ARRAYS + JOINT)
def test_without_a_transform_images_are_pillow_s(make: Make, name: str):
    theirs = make(name, **options_of(name))
    ours = fastpipe.convert(theirs)
    assert_same(theirs, ours)
    assert repr(ours).splitlines()[:2] == repr(theirs).splitlines()[:2]


@pytest.mark.parametrize("name", FILES + ARRAYS)
def test_a_foreign_transform_gets_what_torchvision_hands_it(make: Make, name: str):
    turned = V1.Compose([V1.RandomHorizontalFlip(), lambda image: image.rotate(90), V1.RandomRotation(20)])
    theirs = make(name, transform=turned, **options_of(name))
    assert_same(theirs, fastpipe.convert(theirs))


@pytest.mark.parametrize("name", JOINT)
def test_transforms_of_image_and_target_are_the_same(make: Make, name: str):
    seen = make(name, transforms=lambda image, target: (image.resize((9, 9)), [target, image.size]))
    assert_same(seen, fastpipe.convert(seen))
    separate = make(name, transform=crops(), target_transform=lambda target: [target])
    assert_same(separate, fastpipe.convert(separate))


@pytest.mark.parametrize("name", JOINT)
def test_data_sets_wrapped_for_v2_are_the_same(make: Make, name: str):
    both = V2.Compose([V2.RandomHorizontalFlip(), V2.RandomCrop(40, pad_if_needed=True), V2.ToImage()])
    theirs = torchvision.datasets.wrap_dataset_for_transforms_v2(make(name, transforms=both))
    assert_same(theirs, fastpipe.convert(theirs))


def test_wrapped_data_sets_keep_their_target_keys(make: Make):
    theirs = torchvision.datasets.wrap_dataset_for_transforms_v2(make("CocoDetection"), target_keys="all")
    assert_same(theirs, fastpipe.convert(theirs))
    folder = torchvision.datasets.wrap_dataset_for_transforms_v2(make("ImageFolder", transform=crops()))
    assert_same(folder, fastpipe.convert(folder))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("CelebA", {"target_type": ["attr", "identity", "bbox", "landmarks"]}),
        ("CelebA", {"target_type": []}),
        ("CelebA", {"target_type": "identity", "split": "all"}),
        ("OxfordIIITPet", {"target_types": ["binary-category", "segmentation"]}),
        ("OxfordIIITPet", {"target_types": []}),
        ("QMNIST", {"compat": False}),
        ("CIFAR10", {"train": False}),
        ("STL10", {"split": "train+unlabeled"}),
    ],
)
def test_other_targets_and_splits_are_the_same(make: Make, name: str, options: Any):
    theirs = make(name, **options)
    assert_same(theirs, fastpipe.convert(theirs))


@pytest.mark.parametrize("name", ["ImageFolder", "CIFAR10", "MNIST", "SVHN", "Flowers102"])
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_loader_s_batches_are_the_same(make: Make, name: str, workers: int):
    transform = V1.Compose([V1.RandomResizedCrop(20), V1.RandomHorizontalFlip(), V1.ToTensor()])
    theirs = DataLoader(
        make(name, transform=transform), batch_size=3, shuffle=True, num_workers=workers, drop_last=True
    )
    ours = fastpipe.convert(theirs)
    assert type(ours) is fastpipe.DataLoader
    for _ in range(2):
        results = []
        for loader in (theirs, ours):
            seed_all(3)
            results.append(flat(list(loader)))
        assert results[0] == results[1]


def test_all_arguments_of_a_loader_are_taken(make: Make):
    dataset = make("CIFAR10", transform=V1.ToTensor())
    generator = torch.Generator().manual_seed(1)
    sampler = torch.utils.data.WeightedRandomSampler([1.0] * 25, 10, generator=torch.Generator().manual_seed(2))
    loader = fastpipe.convert(
        DataLoader(dataset, 4, sampler=sampler, generator=generator, collate_fn=list, drop_last=True)
    )
    assert (loader.sampler, loader.generator, users_collate(loader.collate_fn)) == (sampler, generator, list)
    assert (loader.batch_size, loader.drop_last, len(loader)) == (4, True, 2)

    batches = [[3, 1], [4]]
    loader = fastpipe.convert(DataLoader(dataset, batch_sampler=batches))
    assert loader.batch_sampler is batches
    assert [targets.tolist() for _, targets in loader] == [[dataset.targets[n] for n in batch] for batch in batches]

    own = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(dataset), 7, False)
    assert fastpipe.convert(DataLoader(dataset, batch_sampler=own)).batch_sampler is own
    single = fastpipe.convert(DataLoader(dataset, batch_size=None))
    assert single.batch_size is None
    assert flat(next(iter(single))) == flat(next(iter(DataLoader(dataset, batch_size=None))))
    more = {"num_workers": 1, "prefetch_factor": 3, "persistent_workers": True, "timeout": 7, "pin_memory": False}
    loader = fastpipe.convert(DataLoader(dataset, worker_init_fn=plus_seven, multiprocessing_context="fork", **more))
    assert {name: getattr(loader, name) for name in more} == more
    assert loader.worker_init_fn is plus_seven
    assert loader.multiprocessing_context.get_start_method() == "fork"
    assert fastpipe.convert(loader) is loader


def test_subsets_and_what_is_concatenated_share_one_conversion(make: Make):
    folder, cifar = make("ImageFolder", transform=crops()), make("CIFAR10", transform=crops())
    first, second = random_split(cifar, [10, 15], generator=torch.Generator().manual_seed(0))
    theirs = ConcatDataset([Subset(folder, [3, 0]), first, second, folder])
    ours = fastpipe.convert(theirs)
    assert_same(theirs, ours)
    assert ours.datasets[1].dataset is ours.datasets[2].dataset
    assert theirs.datasets[0].dataset is folder


def test_changes_that_were_made_are_taken(make: Make):
    folder = make("ImageFolder")
    folder.samples = [*folder.samples[4:], (folder.samples[0][0], "a word")]
    folder.transform = crops()
    assert_same_samples(folder)
    cifar = make("CIFAR10")
    cifar.data, cifar.targets, cifar.transform = cifar.data[::-2], cifar.targets[::-2], crops()
    assert_same_samples(cifar)
    coco = make("CocoDetection")
    coco.ids = coco.ids[::-1][:2]
    assert_same_samples(coco)


def assert_same_samples(theirs: Any) -> None:
    ours = fastpipe.convert(theirs)
    seed_all(0)
    expected = [flat(theirs[index]) for index in range(len(theirs))]
    seed_all(0)
    assert [flat(ours[index]) for index in range(len(ours))] == expected


def test_later_changes_of_ours_are_seen(make: Make):
    ours = fastpipe.convert(make("MNIST", transform=V1.ToTensor()))
    before = ours[2][0]
    ours.data = ours.data.flip(0)
    ours.targets = [index + 100 for index in range(7)]
    assert torch.equal(ours[4][0], before)
    assert ours[4][1] == 104
    ours.transform = V1.PILToTensor()
    assert ours[4][0].dtype == torch.uint8


@pytest.mark.parametrize("data", [torch.rand(3, 2, 2), torch.zeros(3, 4, 5, 2, dtype=torch.uint8), [1, 2, 3]])
def test_arrays_of_another_kind_are_refused(data: Any):
    with pytest.raises(DatasetError, match="uint8 array or CPU tensor"):
        ImageArray(data, [0, 1, 2])


def test_as_many_targets_as_images_are_needed():
    with pytest.raises(DatasetError, match="3 images, and 2 targets"):
        ImageArray(torch.zeros(3, 4, 5, dtype=torch.uint8), [0, 1])


@pytest.mark.parametrize("shape", [(4, 1, 1), (4, 1, 7), (4, 7, 1, 3), (4, 9, 8, 3)])
def test_arrays_with_any_strides_give_the_images_that_pillow_makes_of_them(shape: tuple[int, ...]):
    data = torch.randint(0, 256, shape, dtype=torch.uint8).numpy()
    shown = [data, data[::-1], data[:, ::-1], data[:, :, ::-1], data.repeat(2, 1)[:, ::2]]
    transform = T.Compose([T.Pad((1, 2)), T.RandomHorizontalFlip(), T.PILToTensor()])
    for array in shown:
        for threads in (0, 2):
            dataset = ImageArray(array, range(4), transform, threads=threads)
            torch.manual_seed(0)
            batch = fastpipe.DataLoader(dataset, batch_size=4)
            images, targets = next(iter(batch))
            torch.manual_seed(0)
            torch.empty((), dtype=torch.int64).random_()  # the loader's seed
            expected = [T.functional.pil_to_tensor(transform_pil(transform, Image.fromarray(one))) for one in array]
            assert torch.equal(images, torch.stack(expected))
            assert targets.tolist() == [0, 1, 2, 3]


def transform_pil(transform: Any, image: Any) -> Any:
    for one in transform.transforms[:-1]:
        image = one(image)
    return image


def test_channels_may_come_first_and_a_seed_repeats():
    data = torch.randint(0, 256, (5, 3, 20, 24), dtype=torch.uint8)
    transform = T.Compose([T.RandomCrop(9), T.PILToTensor()])
    one, other = (ImageArray(data, range(5), transform, channels_first=True, seed=3) for _ in range(2))
    assert flat(one[4]) == flat(other[4])
    assert flat(one.replay(one.recipe(4))) == flat(other[4])
    assert one[-1][1] == 4
    with pytest.raises(IndexError):
        one[5]


def test_tensor_data_sets_give_batches_in_one_piece():
    images, labels = torch.randint(0, 256, (9, 3, 6, 5), dtype=torch.uint8), torch.arange(9)
    for theirs in (
        TensorDataset(images, labels),
        TensorDataset(images.transpose(2, 3)),
        TensorDataset(images, labels, images),
    ):
        ours = fastpipe.convert(theirs)
        assert_same(theirs, ours)
        loader = DataLoader(theirs, batch_size=4, shuffle=True)
        seed_all(0)
        expected = flat(list(loader))
        seed_all(0)
        found = list(fastpipe.convert(loader))
        assert flat(found) == expected
        subset = DataLoader(Subset(theirs, [5, 2, 2, 8]), batch_size=3)
        assert flat(list(fastpipe.convert(subset))) == flat(list(subset))
    sparse = TensorDataset(torch.eye(3).to_sparse())
    assert torch.equal(fastpipe.convert(sparse)[1][0].to_dense(), torch.eye(3)[1])


# -- classes of one's own


class Counted(torchvision.datasets.CIFAR10):
    def __getitem__(self, index: int) -> Any:
        return *super().__getitem__(index), index


class Properties(torchvision.datasets.CIFAR10):
    @property
    def transform(self) -> Any:
        return None

    @transform.setter
    def transform(self, value: Any) -> None:
        pass


class OtherName(torchvision.datasets.ImageFolder):
    """A constructor, a way to list files, and methods under new names: the samples are the base's."""

    def __init__(self, root: str, **options: Any) -> None:
        super().__init__(root, **options)
        self.samples = self.samples[::-1]

    def find_classes(self, directory: Any) -> Any:
        return ["cat", "dog"], {"cat": 0, "dog": 5}

    def count(self) -> int:
        return len(self.samples)


@pytest.mark.parametrize("kind", [Counted, Properties])
def test_a_subclass_with_its_own_samples_keeps_them(make: Make, kind: Any):
    theirs = kind(make("CIFAR10").root, transform=crops())
    ours = fastpipe.convert(theirs)
    assert isinstance(ours, kind)
    assert_same(theirs, ours)


def test_a_subclass_that_makes_the_same_samples_is_taken(make: Make):
    theirs = OtherName(make("ImageFolder").root, transform=crops())
    ours = fastpipe.convert(theirs)
    assert_same_samples(theirs)
    assert ours.class_to_idx == {"cat": 0, "dog": 5}


def opened_and_turned(path: str) -> Any:
    return Image.open(path).convert("RGB").rotate(90)


def test_a_loader_of_its_own_is_called(make: Make):
    loaded = make("ImageFolder", loader=opened_and_turned, transform=crops())
    assert_same(loaded, fastpipe.convert(loaded))
    taken = make("ImageFolder", loader=torchvision.datasets.folder.pil_loader)
    assert isinstance(fastpipe.convert(taken), fastpipe.ImageFolder)
    assert_same(taken, fastpipe.convert(taken))


def test_a_replaced_method_is_seen(make: Make, monkeypatch: pytest.MonkeyPatch):
    cifar = make("CIFAR10")
    monkeypatch.setattr(torchvision.datasets.CIFAR10, "__getitem__", lambda self, index: index)
    assert fastpipe.convert(cifar)[3] == 3
    coco = make("CocoDetection")
    coco._load_image = lambda number: number
    assert fastpipe.convert(coco)[0][0] == coco.ids[0]


class MyLoader(DataLoader[Any]):
    def __iter__(self) -> Any:
        for images, targets in super().__iter__():
            yield images, targets + 100


def test_a_loader_of_another_class_stays_of_it(make: Make):
    theirs = MyLoader(make("CIFAR10", transform=crops()), batch_size=4, shuffle=True)
    ours = fastpipe.convert(theirs)
    assert type(ours) is MyLoader
    assert isinstance(ours.dataset, ImageArray)
    assert type(theirs.dataset) is torchvision.datasets.CIFAR10
    results = []
    for loader in (theirs, ours):
        seed_all(3)
        results.append((flat(list(loader)), states()))
    assert results[0] == results[1]


def test_what_is_ours_is_returned_as_it_is(make: Make):
    ours = fastpipe.convert(make("CIFAR10"))
    assert fastpipe.convert(ours) is ours
    assert fastpipe.convert(copy.copy(ours)) is not ours


def test_the_image_backend_counts(make: Make, monkeypatch: pytest.MonkeyPatch):
    dataset = make("ImageFolder")
    monkeypatch.setattr(sys.modules["torchvision"], "get_image_backend", lambda: "accimage")
    assert not isinstance(fastpipe.convert(dataset), fastpipe.ImageFolder)

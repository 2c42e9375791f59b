"""`explain`: the plan as a tree and as values, what is promised, what broke the plan and what mends it."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision_here import torchvision

import torchvision.transforms.v2  # isort: skip

import fastpipe
from fastpipe import ops, readers
from fastpipe import transforms as T
from fastpipe.config import MachineConfig
from fastpipe.errors import PlanError
from fastpipe.interop.graph_breaks import diagnose, one_line
from fastpipe.ops import EXACT, contracts_of
from fastpipe.program import in_words, steps_in_words
from fastpipe.tools.explain import explain
from fastpipe.tools.explain.describe import _counted
from fastpipe.transforms.augmix import Mixture
from fastpipe.types import Generators, ImageShape

TRAIN = T.Compose([T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5] * 3, [0.2] * 3)])


class Foreign:
    def __call__(self, image: Any) -> Any:
        return image.convert("RGB").rotate(90)

    def __repr__(self) -> str:
        return "Foreign()"


class Corner(T.RandomCrop):
    @staticmethod
    def get_params(img: Any, output_size: Any) -> Any:
        return 0, 0, *output_size


class Slot:
    """A ``draw`` that means something else."""

    def draw(self, canvas: Any) -> None: ...

    def __call__(self, image: Any) -> Any:
        return image


def function(image: Any) -> Any:
    return image


def test_a_tree_of_what_runs_where() -> None:
    text = str(explain(TRAIN))
    lines = text.splitlines()
    assert lines[0] == "4 transforms"
    assert "├── draw    from the size in the file's header, before a pixel is decoded" in lines
    assert any(line.startswith("│   ├── RandomResizedCrop(size=(64, 64)") for line in lines)
    assert any(line.startswith("├── decode  rows ") and line.endswith("equal to Pillow's") for line in lines)
    assert "resize(size=[64, 64], interpolation=bilinear, antialias=True): equals torchvision bit for bit" in text
    assert "with device=, batches travel as uint8" in text
    assert lines[-1] == "└── then    nothing: the whole transform is planned"
    assert repr(explain(TRAIN)) == text


def test_ascii_branches() -> None:
    text = explain(TRAIN).text(ascii=True)
    assert text.splitlines()[-1].startswith("`-- then")
    assert not set("├└│") & set(text)
    several = T.Compose([T.RandomRotation((3, 4)), T.Lambda(abs), *[T.RandomResizedCrop(9)] * 3])
    for subject in (TRAIN, several, fastpipe.MultiView(TRAIN, 2), T.AugMix()):
        assert explain(subject).text(ascii=True).isascii()
    assert re.search(r"turned 3\.\d degrees counter-clockwise", explain(several).text(ascii=True))


def test_as_plain_values() -> None:
    values = json.loads(json.dumps(explain(T.Compose([T.CenterCrop(100), Foreign(), T.ToTensor()])).to_dict()))
    assert values["schema"] == "fastpipe-explain/1"
    assert values["box"] == [138, 200, 100, 100]
    assert values["share"] == pytest.approx(10_000 / (375 * 500))
    assert values["broken_by"]["transform"] == "Foreign()"
    assert (values["rest"], values["called"]) == (["Foreign()", "ToTensor()"], ["Foreign()"])
    assert set(values["decoders"]) == {"JPEG", "PNG", "WEBP"}


def test_the_generators_stay_where_they_are() -> None:
    before = torch.get_rng_state()
    explain(T.Compose([T.RandAugment(), T.RandomErasing()]))
    assert torch.equal(before, torch.get_rng_state())


def test_a_shape_that_can_t_be_transformed_is_told() -> None:
    with pytest.raises(PlanError, match="an image of 10×12 can't be transformed: Required crop size"):
        explain(T.RandomCrop(50), shape=ImageShape(10, 12))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "train" / "cat").mkdir(parents=True)
    Image.fromarray(np.zeros((30, 40, 3), np.uint8)).save(tmp_path / "train" / "cat" / "0.jpg")
    return tmp_path / "train"


@pytest.mark.needs_core
def test_a_dataset_is_explained_on_its_first_file(root: Path) -> None:
    dataset = fastpipe.ImageFolder(root, T.Compose([T.RandomCrop(20), T.ToTensor()]), config=MachineConfig())
    found = explain(dataset)
    assert found.shape == (30, 40)
    assert Path(found.example) == root / "cat" / "0.jpg"
    assert f"ImageFolder of {root}, 2 transforms" in str(found)
    assert explain(torch.utils.data.Subset(dataset, [0])).subject == f"Subset of {found.subject}"
    assert [format for format, _ in found.decoders] == ["JPEG"]
    if readers.reader_status()["cv2"].available:
        dataset.reader = "cv2"
        assert dict(explain(dataset).decoders)["JPEG"].startswith("cv2 decodes the whole image, and the region is cut")
    own = fastpipe.ImageFolder(root, loader=lambda path: Image.open(path), index=None)
    assert "makes the image or the sample: it loads whole images" in str(explain(own))


class Asks(fastpipe.ImageFolder):
    def load(self, index: int) -> Any:
        return super().__getitem__(index)

    def __getitem__(self, index: int) -> Any:
        return (*self.load(index), index)


class Photos(torch.utils.data.Dataset[Any]):
    transform = TRAIN

    def __getitem__(self, index: int) -> Any: ...

    def __len__(self) -> int:
        return 3


def _in_memory(name: str, data: Any) -> Any:
    """torchvision's class, without its download."""
    dataset = getattr(torchvision.datasets, name).__new__(getattr(torchvision.datasets, name))
    dataset.data, dataset.transform, dataset.root = data, TRAIN, "nowhere"
    return dataset


def test_datasets_that_load_images_themselves(root: Path) -> None:
    """Nothing is planned: the transform gets whole images from whatever loads them."""

    def load(path: str) -> Any: ...

    names = [one_line(member) for member in TRAIN.transforms]
    for dataset, decode, breaks, shape in (
        (
            torchvision.datasets.ImageFolder(str(root), TRAIN),
            "whatever torchvision.datasets.folder.default_loader decodes",
            "ImageFolder",
            (30, 40),
        ),
        (_in_memory("CIFAR10", np.zeros((5, 32, 32, 3))), "nothing: CIFAR10 has its images in", "CIFAR10", (32, 32)),
        (_in_memory("MNIST", torch.zeros(5, 28, 27)), "nothing: MNIST has its images in", "MNIST", (28, 27)),
        (_in_memory("STL10", np.zeros((5, 3, 96, 95))), "nothing: STL10 has its images in", "STL10", (96, 95)),
        (Photos(), "whatever Photos.__getitem__ decodes", "Photos", (375, 500)),
        (fastpipe.ImageFolder(root, TRAIN, loader=load), "all of the image, by ", "", (30, 40)),
    ):
        found = explain(torch.utils.data.Subset(dataset, [0]))
        text = str(found)
        assert f"── decode  {decode}" in text
        assert (found.drawn, found.recipe, found.steps, found.decoders, found.share) == ((), (), (), (), 1.0)
        assert found.shape == shape
        assert found.rest == tuple(names)
        assert found.broken_by is not None
        assert found.broken_by.transform.startswith(breaks)
        assert "whole transform is planned" not in text
        assert "core" not in text
        assert f"it calls {', '.join(names)}" in " ".join(text.replace("│", "").split())
        assert json.loads(json.dumps(found.to_dict()))["loaded_by"].startswith(decode)
    assert "fastpipe.convert(dataset)" in str(explain(torchvision.datasets.ImageFolder(str(root), TRAIN)))
    both = torchvision.datasets.VisionDataset(root, transforms=function)
    assert explain(both).rest == (one_line(function),)


class Preprocessed(torch.utils.data.Dataset[Any]):
    """Open_clip's way: a transform under another name, and an Enum beside it."""

    def __init__(self, **attributes: Any) -> None:
        self.mode = T.InterpolationMode.BICUBIC
        self.target_transform = int
        vars(self).update(attributes)

    def __getitem__(self, index: int) -> Any: ...

    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize("name", ["preproc", "transforms", "train_tfms", "augmentation", "anything"])
def test_a_transform_has_any_name(name: str) -> None:
    found = explain(Preprocessed(**{name: TRAIN}))
    assert found.rest == tuple(one_line(member) for member in TRAIN.transforms)
    assert found.subject.startswith("Preprocessed, ")
    assert (f" in {name}" in found.subject) == (name != "transforms")
    assert explain(Preprocessed(my_augment=function)).rest == (one_line(function),)
    assert explain(Preprocessed()).rest == ()


def test_loaders_and_what_they_hold(root: Path) -> None:
    ours = fastpipe.ImageFolder(root, TRAIN)
    theirs = torchvision.datasets.ImageFolder(str(root), TRAIN)
    alone = explain(ours)
    for given, around in (
        (fastpipe.DataLoader(ours, 2), "DataLoader"),
        (torch.utils.data.DataLoader(ours, 2), "DataLoader"),
        (torch.utils.data.DataLoader(torch.utils.data.Subset(ours, [0]), 2), "DataLoader of Subset"),
        (Preprocessed(inner=[ours]), "Preprocessed"),
    ):
        found = explain(given)
        assert found.subject == f"{around} of {alone.subject}"
        assert (found.drawn, found.rest, found.steps) == (alone.drawn, alone.rest, alone.steps)
    both = explain(torch.utils.data.ConcatDataset([ours, theirs, ours]))
    assert both.drawn == alone.drawn
    assert both.notes[-2].startswith(f"datasets[1], ImageFolder of {root}")
    assert "ImageFolder.__getitem__ isn't planned: one line, fastpipe.convert(dataset)" in both.notes[-2]
    assert both.notes[-1] == f"datasets[2], {alone.subject}: planned as this one"


def test_transforms_one_after_the_other() -> None:
    assert explain((T.RandomCrop(3), T.ToTensor())).drawn == explain(T.Compose([T.RandomCrop(3), T.ToTensor()])).drawn


def test_a_getitem_around_fastpipes(root: Path) -> None:
    """Its own part is told, and what it gets from fastpipe's is planned as ever."""
    found, planned = (explain(kind(root, TRAIN, config=MachineConfig())) for kind in (Asks, fastpipe.ImageFolder))
    assert (found.box, found.recipe, found.decoders) == (planned.box, planned.recipe, planned.decoders)
    assert found.broken_by is not None
    assert found.broken_by.transform == "Asks.__getitem__"
    assert "whole transform is planned" not in str(found)
    assert "one by one" in found.batch


@pytest.mark.needs_core
def test_every_format_of_a_dataset_s_files_is_told(root: Path) -> None:
    for number, (mode, ending) in enumerate([("RGB", "png"), ("L", "jpg"), ("RGB", "jpg"), ("CMYK", "jpg")]):
        Image.new(mode, (40, 30)).save(root / "cat" / f"1{number}.{ending}")
    (root / "cat" / "20.jpg").write_bytes(b"not an image")
    dataset = fastpipe.ImageFolder(root, T.CenterCrop(9), config=MachineConfig(), index=None)
    decoders = dict(explain(dataset).decoders)
    assert list(decoders) == ["JPEG", "PNG", "JPEG (CMYK, 8 bits)"]
    assert decoders["JPEG (CMYK, 8 bits)"].startswith("pil")
    assert [format for format, _ in explain(dataset, shape=ImageShape(50, 60)).decoders] == ["JPEG", "PNG", "WEBP"]


def test_files_of_one_format_that_are_decoded_differently_are_counted() -> None:
    found = _counted(Counter({"cv2, the whole image": 3, "pil, the whole image": 1}))
    assert found == "cv2, the whole image (3 of 4 files); pil, the whole image (1 of 4 files)"


def test_files_that_cannot_be_read_are_a_note(root: Path) -> None:
    (root / "cat" / "0.jpg").write_bytes(b"not an image")
    found = explain(fastpipe.ImageFolder(root, T.CenterCrop(9), index=None))
    assert found.shape == (375, 500)
    assert "no file's header could be read" in found.notes[0]
    whole = explain(fastpipe.ImageFolder(root, T.ToTensor(), index=None))
    assert "no file's header could be read" in whole.notes[0]
    assert "`fastpipe check` says why" in str(found)


def test_each_view_has_its_own_steps() -> None:
    found = explain(fastpipe.MultiView(T.Compose([T.RandomCrop(20), T.RandomVerticalFlip(1.0), T.ToTensor()]), 2))
    names = [step.step.partition("(")[0] for step in found.steps]
    assert names == [f"view {n}: {op}" for n in (1, 2) for op in ("crop", "vflip", "to_tensor")]
    assert {step.contract for step in found.steps} == {"exact"}
    assert found.drawn[0].startswith("MultiView(n=2, Compose(RandomCrop(size=(20, 20), padding=None), RandomVertical")


def test_what_is_no_transform_is_refused() -> None:
    with pytest.raises(PlanError, match="explain takes a transform, a dataset or a loader, not int"):
        explain(3)
    with pytest.raises(PlanError, match=r"not str\. For a path, `fastpipe explain PATH`"):
        explain("train")
    with pytest.raises(PlanError, match="found int as the transform of Preprocessed"):
        explain(Preprocessed(transform=3))


def test_a_repr_of_several_lines_becomes_one() -> None:
    choice = T.RandomApply([T.CenterCrop(3), T.Pad(2)], p=0.3)
    assert (
        one_line(choice) == "RandomApply(p=0.3, CenterCrop(size=(3, 3)), Pad(padding=2, fill=0, padding_mode=constant))"
    )

    class Wrapped:
        def __repr__(self) -> str:
            return "Wrapped([\n  a=1,\n  b=2,\n], c=3)"

    assert one_line(Wrapped()) == "Wrapped([a=1, b=2], c=3)"


def test_what_is_called_and_what_is_planned_after_it() -> None:
    members = [T.RandomResizedCrop(64), Foreign(), T.RandomHorizontalFlip(), function, T.ToTensor()]
    found = explain(T.Compose(members))
    text = " ".join(str(found).replace("│", "").split())
    assert "Foreign() is called with each image: nobody knows what it does before it has run" in text
    assert "after it, planned on what it gives: RandomHorizontalFlip(p=0.5), ToTensor()" in text
    assert f"called as well: {one_line(function)}" in text
    assert found.called == ("Foreign()", one_line(function))


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (T.Lambda(lambda image: image), "nobody knows"),
        (function, "nobody knows"),
        (functools.partial(function), "nobody knows"),
        (Foreign(), "nobody knows"),
        (Corner(4), "changes get_params of RandomCrop"),
        (Slot(), "nobody knows"),
        (T.FiveCrop(4), "several images"),
        (T.LinearTransformation(torch.eye(3), torch.zeros(3)), "works on the finished tensor"),
        (T.ToPILImage(), "turns a tensor back"),
        (T.RandomApply([T.CenterCrop(3), Foreign()]), "RandomApply holds Foreign()"),
        (fastpipe.MultiView(T.Compose([Corner(4)])), "changes get_params"),
        (torchvision.transforms.FiveCrop(4), "several images"),
        (torchvision.transforms.Lambda(len), "nobody knows"),
        (torchvision.transforms.v2.ToPILImage(), "turns a tensor back"),
        (torchvision.transforms.v2.MixUp(num_classes=2), "draws or calculates in a way"),
        (torch.nn.Sequential(T.CenterCrop(4)), "nobody knows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_reasons(transform: Any, reason: str) -> None:
    found = diagnose(transform)
    assert reason in found.reason
    assert "0x" not in found.transform


def test_a_hook_and_a_method_of_the_instance_are_seen() -> None:
    hooked, changed = T.CenterCrop(4), T.CenterCrop(4)
    hooked.register_forward_hook(lambda *_: None)
    changed.forward = lambda image: image
    assert "a hook is registered" in diagnose(hooked).reason
    assert "changes forward of CenterCrop" in diagnose(changed).reason


def test_albumentations() -> None:
    A = pytest.importorskip("albumentations")
    for transform in (A.Compose([A.Affine(), A.RandomCrop(9, 9)]), T.Albumentations(A.Compose([A.Affine()]))):
        found = diagnose(transform)
        assert "of Affine, its result isn't known" in found.reason
    members = [A.RandomResizedCrop((224, 224)), A.HorizontalFlip(), A.ColorJitter(), A.RandomCrop(9, 9)]
    for transform in (A.Compose(members), T.Albumentations(A.Compose(members)), T.Compose([A.Compose(members)])):
        text = explain(transform).text(width=200)
        assert "albumentations' RandomResizedCrop(p=1.0" in text
        assert "albumentations' HorizontalFlip(p=0.5), planned" in text
        assert "sample by sample" in text
        assert "only slower" not in text


def test_contracts() -> None:
    assert contracts_of(ops.HFlip()) == (EXACT,)
    assert contracts_of(ops.Resize([3, 3], T.InterpolationMode.NEAREST)) == (EXACT,)
    assert contracts_of(ops.AdjustContrast(1.5)) == (EXACT,)
    assert contracts_of(ops.Rotate(3.0)) == (EXACT,)
    assert contracts_of(ops.ElasticTransform(torch.zeros(1, 9, 9, 2))) == (EXACT,)
    views = fastpipe.MultiView(T.Compose([T.RandomHorizontalFlip(1.0), T.ElasticTransform()])).draw(
        ImageShape(64, 64), Generators()
    )
    assert contracts_of(views[0]) == (EXACT,)


def test_words_of_a_mixture() -> None:
    chains = ((ops.Invert(), ops.Posterize(4)), (), (ops.Rotate(-3.0),))
    mixture = Mixture((0.25, 0.5, 0.125, 0.125), chains)
    expected = "mixed of 25% itself + 50% (inverted, posterized to 4 bits) + 12% (itself) + 12% (turned 3.0° clockwise)"
    assert in_words(mixture) == expected


def test_every_step_that_the_transforms_draw_has_words() -> None:
    from transform_cases import FIXED, LARGE, ON_TENSORS, RANDOM

    words = set()
    for name, arguments in [*RANDOM, *FIXED, *LARGE, *ON_TENSORS]:
        torch.manual_seed(0)
        for _ in range(8):
            for step in getattr(T, name)(**arguments).draw(ImageShape(61, 83), Generators()):
                words.add(in_words(step))
                assert in_words(step)
                assert all(character.isascii() or character == "°" for character in in_words(step)), in_words(step)
    assert any(text.startswith("turned ") for text in words)
    assert "mirrored left-right" in words
    assert not any(text.startswith("adjust_") for text in words)
    assert "resized to 64x64" in steps_in_words(TRAIN.draw(ImageShape(61, 83), Generators()))

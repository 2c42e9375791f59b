"""`verify` on v2's transforms and on datasets of images and targets: passes, and says which part was broken."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision_here

import fastpipe
from fastpipe import ops
from fastpipe import transforms as T
from fastpipe.errors import DatasetError, PlanError
from fastpipe.tools.bench.samples import make_folder
from fastpipe.tools.torchvision_mirror import mirror

theirs = torchvision_here.module("torchvision.transforms.v2")
v2 = torchvision_here.module("fastpipe.transforms.v2")
stand_ins = torchvision_here.module("fastpipe.transforms.v2._proxies")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    make_folder(root, 2, 2, sizes=((60, 83), (97, 64)))
    return root


def classification(module: Any) -> Any:
    colors = module.RandomApply([module.ColorJitter(0.3)])
    end = [module.ToImage(), module.ToDtype(torch.float32, scale=True), module.Normalize([0.5], [0.5])]
    return module.Compose([module.RandomResizedCrop(32), colors, *end])


def detection(module: Any) -> Any:
    names = ("RandomPhotometricDistort", "RandomZoomOut", "RandomIoUCrop", "RandomHorizontalFlip")
    return module.Compose([getattr(module, name)() for name in (*names, "SanitizeBoundingBoxes", "ToImage")])


def scenes(root: Path, transforms: Any, **options: Any) -> fastpipe.SampleDataset:
    paths = sorted(map(str, root.rglob("*.jpg")))

    def sample(index: int) -> Any:
        return paths[index], {"boxes": fastpipe.Boxes([[3.0, 4.0, 30.0, 40.0]]), "labels": torch.tensor([index])}

    return fastpipe.SampleDataset(sample, len(paths), transforms, **options)


def test_a_transform_of_either_library_on_files(root: Path) -> None:
    ours = fastpipe.verify(classification(v2), root, drawings=2)
    before = fastpipe.verify(classification(theirs), root, drawings=2)
    assert ours.holds
    assert before.holds
    assert ours.sha256 == before.sha256
    assert (ours.compared, ours.equal) == (8, 8)
    assert fastpipe.verify(v2.Compose([T.CenterCrop(20), v2.GaussianNoise()]), root, images=1).notes


@pytest.mark.parametrize("module", [v2, theirs], ids=["fastpipe", "torchvision"])
def test_a_dataset_of_boxes(root: Path, module: Any) -> None:
    state = torch.get_rng_state()
    certificate = fastpipe.verify(scenes(root, detection(module), seed=7), images=3)
    assert certificate.holds, str(certificate)
    assert (certificate.files, certificate.compared, certificate.equal) == (3, 9, 9)
    assert str(certificate).endswith("PASS: equal, byte for byte")
    assert torch.equal(torch.get_rng_state(), state)


def test_datasets_of_images_alone(root: Path) -> None:
    v1 = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])
    for transform in (v1, classification(v2)):
        for options in ({}, {"apply_exif": True}, {"seed": 3}):
            certificate = fastpipe.verify(fastpipe.ImageFolder(root, transform, **options), images=2, drawings=1)
            assert certificate.holds
            assert certificate.equal == 2


def test_several_views_are_one_argument_for_what_comes_next(root: Path) -> None:
    def stacked(views: Any) -> torch.Tensor:
        return torch.stack(list(views))

    certificate = fastpipe.verify(v2.Compose([v2.ToImage(), v2.FiveCrop(20), stacked]), root, images=2, drawings=1)
    assert certificate.holds, str(certificate)
    assert certificate.equal == 2


def test_differences_are_those_of_the_picture(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2.RandomHorizontalFlip, "draw", lambda self, shape, generators: (ops.VFlip(),), raising=False)
    flip = [v2.RandomHorizontalFlip(p=1), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    plain = fastpipe.verify(v2.Compose(flip), root, images=1, drawings=1)
    normalized = fastpipe.verify(v2.Compose([*flip, v2.Normalize([0.5] * 3, [0.1] * 3)]), root, images=1, drawings=1)
    assert normalized.worst is not None
    assert plain.worst is not None
    assert normalized.worst.largest == pytest.approx(plain.worst.largest, abs=0.01)


def test_a_broken_plan_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stand_ins._ON_PIL, "horizontal_flip", lambda image: stand_ins.after(image, ops.VFlip()))
    certificate = fastpipe.verify(scenes(root, v2.RandomHorizontalFlip(p=1)), drawings=1)
    assert not certificate.holds
    text = str(certificate)
    assert re.search(r"0 of 4 .*NO\n.*drawing 1: \[0\] differs", text)
    assert "mirrored top-bottom" in text
    assert json.loads(json.dumps(certificate.to_dict()))["worst"]["largest"] > 0
    assert certificate.picture().width > 400


def test_a_broken_transform_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2.SanitizeBoundingBoxes, "forward", lambda self, *inputs: (*inputs[:1], {}))
    certificate = fastpipe.verify(scenes(root, detection(v2)), images=1, drawings=1)
    assert not certificate.holds
    assert re.search(r"0 of 1 .*\n.*\[0\] in place of \[0\], \[1\]\['boxes'\]", str(certificate))


def test_what_both_refuse_and_wrong_arguments(root: Path) -> None:
    certificate = fastpipe.verify(scenes(root, v2.RandomCrop((500, 500))), images=1, drawings=1)
    assert not certificate.compared
    assert any("both refuse" in note for note in certificate.notes)
    with pytest.raises(PlanError, match=r"a dataset of fastpipe's alone"):
        fastpipe.verify(scenes(root, None), root)
    with pytest.raises(PlanError, match="a transform and files"):
        fastpipe.verify(v2.ToImage())
    with pytest.raises(DatasetError, match="no samples"):
        fastpipe.verify(fastpipe.SampleDataset(str, 0, v2.ToImage()))


def test_mirrors_of_v2() -> None:
    transform = v2.Compose([v2.RandomChoice([v2.Resize(9), v2.ToImage()]), T.CenterCrop(3), v2.Identity()])
    notes: list[str] = []
    there = mirror(transform, notes)
    assert not notes
    assert type(there) is theirs.Compose
    assert [type(one) for one in there.transforms[0].transforms] == [theirs.Resize, theirs.ToImage]
    assert type(there.transforms[1]) is torchvision_here.torchvision.transforms.CenterCrop

    class Own(v2.Resize):
        pass

    own = Own(3)
    assert mirror(own, notes) is own
    assert "has no counterpart in torchvision" in notes[0]

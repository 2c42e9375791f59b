"""timm's own objects are planned, and give what they give in torchvision's datasets: bytes and end states."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.transforms import timm_pipelines as pipelines
from interop.transforms.timm_pipelines import auto_augment, crops, data
from PIL import Image
from recipe_conformance import assert_same, flat, in_process, run, seed_all, states
from torchvision_here import module, torchvision

import fastpipe
from fastpipe import explain
from fastpipe import transforms as ours
from fastpipe.interop.graph_breaks import diagnose
from fastpipe.rng import keyed_globals, sample_key
from fastpipe.transforms import adapters
from fastpipe.transforms._base import drawable

T = module("torchvision.transforms")
Erasing = module("timm.data.random_erasing").RandomErasing
HPARAMS = {"translate_const": 20, "img_mean": (124, 116, 104)}
AUTO, RAND, MIX = ("v0", "v0r", "original", "3a"), ("m9", "mstd101-tweights", "t3a"), ("w2-d2", "b1")
MODES = ("const", "rand", "pixel")
ALONE = [
    crops.RandomResizedCropAndInterpolation(20),
    crops.RandomResizedCropAndInterpolation((20, 31), scale=(3.0, 4.0), interpolation="random"),
    crops.RandomResizedCropAndInterpolation(20, ratio=(0.1, 0.2), scale=(0.9, 1.0), interpolation="bicubic"),
    T.Compose([T.CenterCrop(40), crops.ToNumpy()]),
    crops.MaybePILToTensor(),
    T.Compose([T.ToTensor(), crops.MaybeToTensor()]),
    T.Compose([T.PILToTensor(), crops.MaybePILToTensor()]),
    *(auto_augment.auto_augment_transform(f"{name}-mstd0.5", dict(HPARAMS)) for name in AUTO),
    *(auto_augment.rand_augment_transform(f"rand-n4-{rest}", dict(HPARAMS)) for rest in RAND),
    *(auto_augment.augment_and_mix_transform(f"augmix-m5-{rest}", dict(HPARAMS)) for rest in MIX),
    *(T.Compose([T.ToTensor(), Erasing(1.0, mode=mode, max_count=2, device="cpu")]) for mode in MODES),
]


CALLED = [
    crops.ResizeKeepRatio((30, 40), longest=1.0),
    crops.ResizeKeepRatio(33, 0.3, "random", 0.5, (0.5, 1.5), True, 0.5, (0.6, 1.7)),
    T.Compose([crops.ResizeKeepRatio(33, random_scale_prob=1.0, random_aspect_prob=1.0), crops.CenterCropOrPad(40)]),
    crops.CenterCropOrPad((70, 40), fill=[1, 2, 3]),
    crops.CenterCropOrPad((71, 90), padding_mode="reflect"),
    crops.CenterCropOrPad(20),
    crops.RandomCropOrPad((70, 40)),
    crops.RandomCropOrPad((120, 33), fill=9),
    crops.RandomPad((100, 60), fill=(3, 4, 5)),
    crops.TrimBorder(7),
    crops.ToTensor(torch.float16),
    *pipelines.naflex_crops(),
]


@pytest.mark.parametrize("number", range(len(ALONE)))
def test_each_class_alone(photos: Path, number: int) -> None:
    for seed in range(4):
        assert_same(photos, ALONE[number], seed)


@pytest.mark.parametrize("number", range(len(CALLED)))
def test_crops_that_pad_or_make_sequences_are_called(photos: Path, number: int) -> None:
    transform = CALLED[number]
    for seed in range(2):
        assert_same(photos, T.Compose([T.RandomHorizontalFlip(), transform, T.ToTensor()]), seed, drawn=False)


@pytest.mark.parametrize("name", sorted(auto_augment.NAME_TO_OP))
def test_each_operation(photos: Path, name: str) -> None:
    for magnitude, resample in ((0, 2), (3, (2, 3)), (10, 0), (7, 3)):
        hparams = {**HPARAMS, "interpolation": resample, "magnitude_std": 0.5}
        op = auto_augment.AugmentOp(name, 1.0, magnitude, hparams)
        assert_same(photos, T.Compose([T.CenterCrop((33, 47)), op]), magnitude)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_whatever_create_transform_makes(photos: Path, seed: int) -> None:
    pipelines.check_one(photos, seed)


@pytest.mark.slow
@pytest.mark.parametrize("core", ["off", "portable"])
def test_with_another_core(photos: Path, core: str) -> None:
    in_process("interop.transforms.timm_pipelines", photos, core)


def test_separate_transforms(photos: Path) -> None:
    parts = data.create_transform(
        24, is_training=True, auto_augment="rand-m9-mstd0.5", separate=True, re_prob=1.0, interpolation="bicubic"
    )
    assert len(parts) == 3
    for count in (1, 2, 3):
        assert_same(photos, T.Compose(list(parts[:count])), count)


def train() -> Any:
    return data.create_transform(
        24, is_training=True, auto_augment="rand-m6-mstd0.5-inc1", re_prob=0.5, re_mode="pixel", interpolation="random"
    )


def test_a_compose_of_ours_calls_it_on_an_image(photos: Path) -> None:
    transform = train()
    image = Image.open(photos / "a" / "0.jpg")
    for seed in range(20):
        seed_all(seed)
        expected = flat(transform(image)), states()
        seed_all(seed)
        assert (flat(ours.Compose([transform])(image)), states()) == expected


def test_a_seed_repeats_and_moves_no_global_generator(photos: Path) -> None:
    transform = train()
    theirs = torchvision.datasets.ImageFolder(photos, transform)
    dataset = fastpipe.ImageFolder(photos, transform, seed=4)
    before = states()
    for index in range(len(dataset)):
        with keyed_globals(sample_key(4, 0, index)):
            expected = flat(theirs[index])
        assert flat(dataset[index]) == expected
        assert flat(dataset.replay(dataset.recipe(index))) == expected
    assert states() == before


def test_a_recipe_is_what_comes_next(photos: Path) -> None:
    dataset = fastpipe.ImageFolder(photos, train())
    for index in range(len(dataset)):
        recipe = dataset.recipe(index)
        assert flat(dataset.replay(recipe)) == flat(dataset[index])


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_draw_what_a_worker_draws(photos: Path, threads: int) -> None:
    transform = train()
    batches = []
    for dataset, options in (
        (torchvision.datasets.ImageFolder(photos, transform), {"num_workers": 1}),
        (fastpipe.ImageFolder(photos, transform), {"num_workers": 0, "threads": threads}),
        (fastpipe.ImageFolder(photos, transform), {"num_workers": 1}),
    ):
        seed_all(8)
        loader = fastpipe.DataLoader if "threads" in options else torch.utils.data.DataLoader
        batches.append([images for images, _ in loader(dataset, batch_size=2, **options)])
    for other in batches[1:]:
        assert all(map(torch.equal, batches[0], other))


def test_timms_loader_keeps_its_ways(photos: Path) -> None:
    found = []
    for kind in (torchvision.datasets.ImageFolder, fastpipe.ImageFolder):
        loader = data.create_loader(
            kind(str(photos)),
            (3, 24, 24),
            batch_size=2,
            is_training=True,
            num_workers=1,
            persistent_workers=False,
            auto_augment="rand-m5-mstd0.5",
            re_prob=0.5,
            device=torch.device("cpu"),
        )
        seed_all(3)
        found.append(flat(list(loader)))
        if kind is fastpipe.ImageFolder:
            assert loader.loader.dataset.pipeline.unplanned == ()
    assert found[0] == found[1]


def test_changes_are_seen(photos: Path) -> None:
    transform = train()
    dataset = fastpipe.ImageFolder(photos, transform)
    before = run(dataset, 1)
    crop, _, policy, *_ = transform.transforms
    crop.scale, policy.num_layers, policy.ops[0].prob, policy.ops[3].magnitude = (0.9, 1.0), 4, 1.0, 2
    after = run(dataset, 1)
    assert after != before
    assert after == run(torchvision.datasets.ImageFolder(str(photos), transform), 1)


def test_an_error_of_pillows_names_the_file(photos: Path) -> None:
    op = auto_augment.AugmentOp("Posterize", 1.0, 0, {"img_mean": (0, 0, 0)})
    expected = run(torchvision.datasets.ImageFolder(str(photos), op), 0)
    if expected is not ValueError:
        pytest.skip("this Pillow posterizes to no bits")
    dataset = fastpipe.ImageFolder(photos, op)
    assert dataset.pipeline.unplanned == ()
    with pytest.raises(ValueError, match=r"bits must be between or equal to 1 and 8(.|\n)*0\.jpg"):
        dataset[0]


# -- what isn't planned


class Mine(auto_augment.RandAugment):
    def __call__(self, img: Any) -> Any:
        return super().__call__(super().__call__(img))


def foreign() -> list[Any]:
    odd = auto_augment.AugmentOp("Invert", 1.0, 5, dict(HPARAMS))
    odd.aug_fn = lambda image, **given: image.rotate(90)
    level = auto_augment.AugmentOp("Color", 1.0, 5, dict(HPARAMS))
    level.level_fn = lambda level, hparams: (random.random(),)
    known = auto_augment.rand_augment_transform("rand-m5", dict(HPARAMS))
    return [odd, level, auto_augment.RandAugment([odd]), Mine(known.ops)]


@pytest.mark.parametrize("transform", foreign(), ids=lambda transform: type(transform).__name__)
def test_others_run_as_they_are(photos: Path, transform: Any) -> None:
    assert not drawable(transform)
    assert_same(photos, T.Compose([T.CenterCrop(30), transform]), drawn=False)


def test_erasing_on_another_device_is_foreign() -> None:
    assert not drawable(Erasing(1.0, device="cuda"))


def test_another_timm_is_not_planned(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastpipe.interop.transforms import timm as recipe
    from fastpipe.interop.transforms.known_code import by_code

    known, others = by_code(
        entry._replace(fingerprint="other") if entry.name == "RandomResizedCropAndInterpolation" else entry
        for entry in recipe.ENTRIES
    )
    assert len(known) == len(recipe.TABLE) - 1
    monkeypatch.setattr(recipe, "TABLE", known)
    monkeypatch.setattr(recipe, "OTHERS", others)
    monkeypatch.setattr(adapters, "find_adapt", adapters.find_adapt.__wrapped__)
    transform = train()
    found = explain(transform).broken_by
    assert found is not None
    assert "has another RandomResizedCropAndInterpolation than the one that fastpipe knows" in found.reason
    assert_same(photos, transform, drawn=False)


def test_explain_says_whose_it_is() -> None:
    found = explain(train())
    assert found.broken_by is None
    assert found.drawn[0].startswith("timm's RandomResizedCropAndInterpolation(size=(24, 24)")
    assert found.drawn[1] == "torchvision's RandomHorizontalFlip(p=0.5), planned"
    assert "RandAugment" in diagnose(auto_augment.RandAugment([len])).transform

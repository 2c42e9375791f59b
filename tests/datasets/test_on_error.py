"""``on_error``: what becomes of bad files, the same for any number of threads, and what is known of them."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import sys
from pathlib import Path

import corpus
import numpy as np
import pytest
import torch
from bad_files import BAD, COUNT, GOOD, logged
from PIL import Image
from torch.utils.data import Subset

import fastpipe
from fastpipe import transforms as T
from fastpipe.datasets import BadFileCounts, ImageDataset
from fastpipe.datasets.bad_files import same_target
from fastpipe.errors import BadFilesError, DatasetError, DecodeError
from fastpipe.executor import BatchSpec, ImageBatch

CROP = [T.RandomResizedCrop(20), T.RandomHorizontalFlip()]


def turn(image):
    return image.rotate(random.random() * 50)


TRANSFORMS = {
    "planned": T.Compose([*CROP, T.ToTensor()]),
    "foreign": T.Compose([*CROP, T.Lambda(turn), T.ToTensor()]),
    "views": fastpipe.MultiView(T.Compose([*CROP, T.ToTensor()]), 2),
}
ALLOWED = {"max_bad_fraction": 1}

pytestmark = pytest.mark.filterwarnings("ignore::fastpipe.errors.FastpipeWarning")


@pytest.fixture
def make(spoiled_index: fastpipe.ImageIndex, bad_files_log: Path):
    def folder(transform=TRANSFORMS["planned"], **options):
        options = {"bad_files_log": bad_files_log, "max_bad_fraction": 1, **options}
        return fastpipe.ImageFolder(spoiled_index.root, transform, index=spoiled_index, **options)

    return folder


def same(one, other) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def as_list(dataset, indices, batches=False):
    """Samples of ``__getitems__``, also where these are in one tensor."""
    if not batches:
        return dataset.__getitems__(indices)
    got = dataset.batch(indices, BatchSpec())
    return list(zip(got.images, got.targets, strict=True)) if isinstance(got, ImageBatch) else got


class TestRaise:
    @pytest.mark.parametrize("number", BAD)
    @pytest.mark.parametrize("threads", [0, 3])
    def test_names_file_index_and_reason(self, make, spoiled_index, bad_files_log, number, threads):
        dataset = make(threads=threads)
        errors = []
        for get in (
            lambda: dataset[number],
            lambda: dataset.__getitems__([0, number, 2]),
            lambda: dataset[number - COUNT],
        ):
            with pytest.raises(OSError, match=f"sample {number} of the dataset") as caught:
                get()
            errors.append(caught.value)
        assert len({type(error) for error in errors}) == 1
        assert spoiled_index.path(number) in str(errors[0])
        assert isinstance(errors[0], DecodeError) == (BAD[number] in ("truncated", "empty", "text", "mangled"))
        if BAD[number] == "missing":
            assert isinstance(errors[0], FileNotFoundError)
            assert errors[0].errno == errno.ENOENT
            assert errors[0].filename == spoiled_index.path(number)
        assert not bad_files_log.exists()
        assert dataset.bad_files == BadFileCounts(0, 0, 0)

    def test_keeps_its_class_on_the_way_out_of_a_worker(self, make, spoiled_index):
        """torch makes an error of its class and its text, where it can."""
        for number, kind in ((1, DecodeError), (15, FileNotFoundError)):
            assert BAD[number] in ("truncated", "missing")
            with pytest.raises(kind, match=f"sample {number} of the dataset") as caught:
                list(fastpipe.DataLoader(Subset(make(), [number]), num_workers=1))
            assert spoiled_index.path(number) in str(caught.value)

    def test_own_loader(self, make):
        def load(path):
            raise ZeroDivisionError("odd")

        with pytest.raises(ZeroDivisionError) as caught:
            make(loader=load)[3]
        if sys.version_info >= (3, 11):
            assert "sample 3 of the dataset" in caught.value.__notes__[0]

    def test_upright_images_are_named_as_well(self, tmp_path):
        exif = Image.Exif()
        exif[0x0112] = 6
        path = tmp_path / "a" / "turned.jpg"
        path.parent.mkdir()
        Image.fromarray(corpus.photo(90, 80)).save(path, exif=exif)
        path.write_bytes(path.read_bytes()[:-900])
        dataset = fastpipe.ImageFolder(tmp_path, TRANSFORMS["planned"], apply_exif=True)
        with pytest.raises(DecodeError, match=r"turned\.jpg .*sample 0 of"):
            dataset[0]


class TestSkip:
    @pytest.mark.parametrize("name", TRANSFORMS)
    @pytest.mark.parametrize("threads", [0, 3])
    @pytest.mark.parametrize("seed", [None, 4])
    def test_good_samples_come_once_and_as_ever(self, make, bad_files_log, name, threads, seed):
        dataset = make(TRANSFORMS[name], on_error="skip", threads=threads, seed=seed)
        torch.manual_seed(1)
        random.seed(1)
        samples = as_list(dataset, range(COUNT))
        assert len(samples) == len(GOOD)
        plain = make(TRANSFORMS[name], seed=4)
        if seed is not None:
            assert same(samples, [plain[index] for index in GOOD])
            assert same([dataset[index] for index in GOOD], samples)
        else:  # draws of the same generators, whatever the threads
            one = make(TRANSFORMS[name], on_error="skip")
            torch.manual_seed(1)
            random.seed(1)
            assert same(as_list(one, range(COUNT)), samples)
        assert [int(row["index"]) for row in logged(bad_files_log)] == list(BAD)
        assert dataset.bad_files == BadFileCounts(skipped=6, replaced=0, total=6)

    def test_in_one_tensor(self, make):
        dataset = make(on_error="skip", seed=1)
        assert same(as_list(dataset, range(COUNT), batches=True), as_list(dataset, range(COUNT)))
        order = [28, 3, 1, 5, 10, 2, 29, 29]
        assert same(as_list(dataset, order, batches=True), [make(seed=1)[index] for index in (3, 5, 2, 29, 29)])
        assert as_list(dataset, [1, 28], batches=True) == []

    def test_one_is_none(self, make):
        dataset = make(on_error="skip")
        assert [dataset[index] for index in BAD] == [None] * 6
        assert dataset[-COUNT + 1] is None
        assert dataset[2] is not None

    def test_a_batch_of_none_is_said_to_be_one(self, make):
        with pytest.raises(BadFilesError, match=r"all 2 samples .* larger batches"):
            make(on_error="skip").__getitems__([1, 4])

    def test_sizes_that_do_not_fit_into_one_tensor(self, make):
        dataset = make(T.Compose([T.ToTensor()]), on_error="skip", seed=1)
        samples = as_list(dataset, range(COUNT), batches=True)
        assert same(samples, [make(T.Compose([T.ToTensor()]), seed=1)[index] for index in GOOD])

    @pytest.mark.parametrize("loader", [lambda path: Image.open(path), lambda path: Image.open(path).convert("RGB")])
    def test_own_loader_that_loads_late_or_at_once(self, make, loader):
        dataset = make(
            T.Compose([T.Lambda(lambda image: image.convert("RGB")), *CROP, T.ToTensor()]),
            loader=loader,
            on_error="skip",
        )
        assert len(dataset.__getitems__(range(COUNT))) == len(GOOD)

    def test_errors_of_the_transform_are_raised(self, make):
        def fails(image):
            raise OSError("not the file's fault")

        with pytest.raises(OSError, match="fault"):
            make(T.Lambda(fails), on_error="skip")[0]
        with pytest.raises(ValueError, match="crop"):
            make(T.Compose([T.RandomCrop(500), T.ToTensor()]), on_error="skip")[0]

    @pytest.mark.skipif(sys.platform == "win32", reason="no limit that can be set")
    def test_running_out_of_file_descriptors_is_no_bad_file(self, make):
        resource = pytest.importorskip("resource")
        dataset = make(on_error="skip")
        dataset[0]
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        held = [os.dup(0)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 1, limits[1]))
        try:
            with contextlib.suppress(OSError):
                while True:
                    held.append(os.dup(0))
            with pytest.raises(OSError, match="Too many open files"):
                dataset[0]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for descriptor in held:
                os.close(descriptor)


class TestReplace:
    @pytest.mark.parametrize("name", TRANSFORMS)
    @pytest.mark.parametrize("threads", [0, 3])
    @pytest.mark.parametrize("seed", [None, 4])
    def test_batches_keep_their_size_and_classes(self, make, bad_files_log, name, threads, seed):
        dataset = make(TRANSFORMS[name], on_error="replace", threads=threads, seed=seed)
        torch.manual_seed(1)
        random.seed(1)
        samples = as_list(dataset, range(COUNT))
        assert [target for _, target in samples] == list(dataset.targets)
        if seed is not None:
            plain = make(TRANSFORMS[name], seed=seed)
            assert same([samples[index] for index in GOOD], [plain[index] for index in GOOD])
            assert same([dataset[index] for index in range(COUNT)], samples)
        else:
            one = make(TRANSFORMS[name], on_error="replace")
            torch.manual_seed(1)
            random.seed(1)
            assert same(as_list(one, range(COUNT)), samples)
        assert {int(row["index"]) for row in logged(bad_files_log)} == set(BAD)
        assert dataset.bad_files == BadFileCounts(skipped=0, replaced=6, total=6)

    def test_is_a_good_sample_of_the_class_with_the_bad_ones_draws(self, make):
        dataset = make(T.Compose([T.PILToTensor()]), on_error="replace", seed=3)
        chosen = {index: who(make, dataset[index][0]) for index in BAD}
        for index, others in chosen.items():
            assert others
            assert all(other in GOOD and other // 10 == index // 10 for other in others)
        drawn = make(on_error="replace", seed=3)[4][0]
        plain = make(T.Compose([T.PILToTensor()]))
        recipe = T.Compose([T.RandomResizedCrop(20), T.RandomHorizontalFlip(), T.ToTensor()])
        from fastpipe.rng import keyed_generators, sample_key
        from fastpipe.transforms.pipeline import compile_pipeline
        from fastpipe.types import ImageShape

        pixels = dataset[4][0]
        steps = compile_pipeline(recipe).draw(ImageShape(*pixels.shape[1:]), keyed_generators(sample_key(3, 0, 4)))
        image = pixels.permute(1, 2, 0).numpy()
        for step in steps:
            image = step.apply(image)
        assert (image - drawn).abs().max() <= 1.01 / 255
        assert len(plain) == COUNT

    def test_depends_on_seed_epoch_and_index_alone(self, make):
        dataset = make(T.Compose([T.PILToTensor()]), on_error="replace", seed=3)
        picks = []
        for epoch in range(6):
            dataset.set_epoch(epoch)
            order = random.Random(epoch).sample(range(COUNT), COUNT)
            samples = dict(zip(order, as_list(dataset, order), strict=True))
            assert same([samples[index] for index in BAD], [dataset[index] for index in BAD])
            picks.append([tuple(samples[index][0].shape) for index in BAD])
        assert len(set(map(tuple, picks))) > 1
        without = make(T.Compose([T.PILToTensor()]), on_error="replace")
        assert same([without[index] for index in BAD], [without[index] for index in BAD])

    def test_in_one_tensor(self, make):
        for seed in (None, 1):
            dataset = make(on_error="replace", seed=seed)
            torch.manual_seed(0)
            one = as_list(dataset, range(COUNT), batches=True)
            torch.manual_seed(0)
            assert same(one, as_list(dataset, range(COUNT)))

    def test_a_class_without_a_good_file(self, make, spoiled_index, tmp_path):
        paths = [spoiled_index.path(number) for number in (1, 4, 10, 0)]
        for count, tried in ((3, "2 others tried"), (1, "it is the only one")):
            listed = fastpipe.ImageList(
                (paths[:count] + paths[3:], [5] * count + [6]),
                on_error="replace",
                bad_files_log=tmp_path / "l.csv",
                max_bad_fraction=1,
            )
            with pytest.raises(BadFilesError, match=rf"same target 5 .*{tried}.*l\.csv"):
                listed[0]
            assert listed[count] is not None
        assert len(logged(tmp_path / "l.csv")) == 3

    def test_tries_are_bounded(self, spoiled_index):
        paths = [spoiled_index.path(1)] * 100 + [spoiled_index.path(0)]
        listed = fastpipe.ImageList(
            (paths, [0] * 100 + [1]), on_error="replace", bad_files_log=None, max_bad_fraction=1
        )
        with pytest.raises(BadFilesError, match="32 others tried, all bad"):
            listed[3]

    def test_own_idea_of_what_is_alike(self, make, spoiled_index, bad_files_log):
        class Next(fastpipe.ImageFolder):
            def alternatives(self, index, generator):
                yield (index + 1) % len(self)

        dataset = Next(
            spoiled_index.root,
            T.PILToTensor(),
            index=spoiled_index,
            on_error="replace",
            bad_files_log=bad_files_log,
            max_bad_fraction=1,
        )
        assert same(dataset[1][0], dataset[2][0])


def who(make, pixels) -> list[int]:
    """The good samples that have these pixels."""
    plain = make(T.Compose([T.PILToTensor()]))
    return [index for index in GOOD if same(plain[index][0], pixels)]


@pytest.mark.filterwarnings("ignore::fastpipe.errors.FastpipeWarning")
@pytest.mark.parametrize("seed", [None, 0])
def test_set_epoch_begins_the_counts_anew(make, seed):
    dataset = make(on_error="skip", seed=seed)
    dataset.__getitems__(range(COUNT))
    dataset.set_epoch(1)
    assert dataset.bad_files == BadFileCounts(skipped=0, replaced=0, total=len(BAD))


class TestFunction:
    def test_is_told_all_about_the_file(self, make, spoiled_index):
        told = []
        dataset = make(on_error=told.append, seed=2, target_transform=str)
        dataset.set_epoch(5)
        assert len(dataset.__getitems__(range(COUNT))) == len(GOOD)
        assert [bad.index for bad in told] == list(BAD)
        assert [bad.path for bad in told] == [spoiled_index.path(number) for number in BAD]
        assert [bad.target for bad in told] == [0, 0, 1, 1, 2, 2]
        assert {bad.epoch for bad in told} == {5}
        assert all(isinstance(bad.error, OSError) and "\n" not in bad.reason for bad in told)
        assert dataset.bad_files.skipped == 6

    @pytest.mark.parametrize("threads", [0, 3])
    def test_answers(self, make, threads):
        gray = torch.full((3, 20, 20), 0.5)
        answers = {1: None, 4: 1, 10: np.int64(11), 15: (gray, "none"), 22: -1, 28: 22}

        def answer(bad):
            return answers[bad.index]

        dataset = make(on_error=answer, seed=1, threads=threads)
        for batches in (False, True):
            samples = as_list(dataset, range(COUNT), batches=batches)
            assert len(samples) == COUNT - 2  # 4 → 1 → left out
            targets = [target for _, target in samples]
            assert targets == [0] * 8 + [1] * 5 + ["none"] + [1] * 4 + [2] * 10
            assert same(samples[13][0], gray)
            plain = make(seed=1)
            assert same([samples[at] for at in (0, 9, 12, 14)], [plain[index] for index in (0, 11, 14, 16)])
        assert dataset[1] is None
        assert dataset[4] is None
        assert same(dataset[15], (gray, "none"))
        assert dataset.bad_files == BadFileCounts(skipped=2, replaced=4, total=6)

    def test_what_it_raises_is_raised(self, make):
        def answer(bad):
            raise bad.error

        with pytest.raises(DecodeError, match="sample 1 "):
            make(on_error=answer)[1]

    @pytest.mark.parametrize("answer", [True, "4", (1, 2, 3), torch.zeros(3)], ids=["bool", "str", "triple", "tensor"])
    def test_other_answers(self, make, answer):
        with pytest.raises(DatasetError, match="return None to leave the sample out"):
            make(on_error=lambda bad: answer)[1]

    def test_a_circle_of_bad_ones_ends(self, make):
        with pytest.raises(BadFilesError, match="32 samples in a row"):
            make(on_error=lambda bad: 5 - bad.index)[1]
        with pytest.raises(IndexError):
            make(on_error=lambda bad: 1000)[1]


class Files(ImageDataset):
    """A dataset of a user's own, on the base class alone."""

    def __init__(self, index, **options):
        super().__init__(TRANSFORMS["planned"], bad_files_log=None, max_bad_fraction=1, **options)
        self.files = index

    def sample(self, number):
        return self.files.path(number), {"label": number // 10}

    def __len__(self):
        return COUNT


class TestOwnDatasets:
    def test_base_class(self, spoiled_index):
        assert len(Files(spoiled_index, on_error="skip").__getitems__(range(COUNT))) == len(GOOD)
        samples = Files(spoiled_index, on_error="replace", seed=0).__getitems__(range(COUNT))
        assert [target["label"] for _, target in samples] == [number // 10 for number in range(COUNT)]

    def test_own_getitem(self, spoiled_index):
        class Wrapped(Files):
            def __getitem__(self, number):
                sample = super().__getitem__(number)
                return sample if sample is None else (*sample, number)

        assert [sample[2] for sample in Wrapped(spoiled_index, on_error="skip").__getitems__(range(COUNT))] == GOOD

    def test_samples_that_were_assigned(self, make, spoiled_index):
        dataset = make(on_error="replace", seed=1)
        dataset.samples = [(spoiled_index.path(number), "all") for number in range(11)]
        assert [target for _, target in dataset.__getitems__(range(11))] == ["all"] * 11
        assert dataset.bad_files.replaced == 3

    def test_subsets_count_for_themselves(self, spoiled_index, bad_files_log):
        whole = fastpipe.ImageList(
            spoiled_index, TRANSFORMS["planned"], on_error="skip", bad_files_log=bad_files_log, **ALLOWED
        )
        part = whole.subset([4, 5, 6])
        assert len(part.__getitems__([0, 1, 2])) == 2
        assert part.bad_files.skipped == 1
        assert whole.bad_files.skipped == 0
        assert [row["index"] for row in logged(bad_files_log)] == ["0"]


class TestAlternatives:
    @pytest.mark.parametrize("count", [50, 200_000])
    @pytest.mark.parametrize("as_array", [True, False])
    def test_all_others_of_the_target_once(self, count, as_array):
        labels = np.arange(count) % 10
        labels[3] = labels[count - 7] = 77
        array = labels if as_array else None

        def found(index, seed=0):
            return list(same_target(count, index, np.random.default_rng(seed), array, lambda at: int(labels[at])))

        assert found(3) == [count - 7]
        assert found(5) == found(5)
        assert found(5) != found(5, 1)
        assert sorted(found(5)) == [at for at in range(5, count, 10) if at != 5]

    def test_targets_without_a_yes_or_no(self):
        targets = [torch.tensor([1, 2]), torch.tensor([1, 2])]
        assert list(same_target(2, 0, np.random.default_rng(0), None, targets.__getitem__)) == []

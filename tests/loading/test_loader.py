"""`fastpipe.DataLoader` against torch's: the same batches, whatever makes them."""

from __future__ import annotations

import random
import sys

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, RandomSampler, Subset, get_worker_info
from torch.utils.data import DataLoader as StockLoader

import fastpipe
from fastpipe import transforms as T
from fastpipe.errors import DatasetError, DecodeError
from fastpipe.executor import BatchSpec, ImageBatch
from fastpipe.loading import samplers

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CROP = [T.RandomResizedCrop((20, 31)), T.RandomHorizontalFlip()]
FORK = sys.platform == "linux"


def turn(image):
    return image.rotate(random.random() * 50)


class WithoutLength(torch.utils.data.Dataset):
    """A wrapper with samples by index and no ``__len__``, which torch's loader takes with a sampler."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __getitem__(self, index):
        return self.dataset[index]


TRANSFORMS = {
    "uint8": [*CROP, T.PILToTensor()],
    "float": [*CROP, T.ToTensor()],
    "converted": [*CROP, T.PILToTensor(), T.ConvertImageDtype(torch.float32)],
    "normalised": [*CROP, T.ToTensor(), T.Normalize(MEAN, STD)],
    "one mean": [*CROP, T.ToTensor(), T.Normalize([0.5], [0.25])],
    "gray": [*CROP, T.Grayscale(), T.ToTensor(), T.Normalize([0.5], [0.25])],
    "gray, uint8": [*CROP, T.Grayscale(), T.PILToTensor()],
    "erased": [*CROP, T.ToTensor(), T.Normalize(MEAN, STD), T.RandomErasing(0.8, value="random")],
    "sometimes normalised": [*CROP, T.ToTensor(), T.RandomApply([T.Normalize(MEAN, STD)])],
    "sometimes half": [*CROP, T.ToTensor(), T.RandomApply([T.ConvertImageDtype(torch.float64)], p=0.0)],
    "double": [*CROP, T.PILToTensor(), T.ConvertImageDtype(torch.float64)],
    "foreign": [*CROP, T.Lambda(turn), T.ToTensor()],
}
PLANNED = ["uint8", "float", "converted", "normalised", "one mean", "gray", "gray, uint8"]


def equal(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert len(a) == len(b) == 2
        for x, y in zip(a, b, strict=True):
            assert type(x) is type(y)
            if isinstance(x, torch.Tensor):
                assert x.dtype == y.dtype
                assert x.stride() == y.stride()
                assert torch.equal(x, y)
            else:
                assert x == y
    return True


def batches(loader_class, dataset, **options):
    torch.manual_seed(12)
    random.seed(12)
    return list(loader_class(dataset, batch_size=4, shuffle=True, **options))


def in_shared_memory(images) -> bool:
    """True if the pages are those that the worker wrote to: no second copy was made."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, stop = (int(place, 16) for place in line.split()[0].split("-"))
            if start <= images.data_ptr() < stop:
                return "/dev/shm/" in line
    return False


@pytest.mark.parametrize("name", TRANSFORMS)
def test_batches_are_the_stock_loaders(root, name):
    dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS[name]))
    assert equal(batches(fastpipe.DataLoader, dataset), batches(StockLoader, dataset))


@pytest.mark.skipif(not FORK, reason="the other start methods are covered by one test: they start slowly")
@pytest.mark.parametrize("name", ["uint8", "normalised", "erased", "foreign"])
def test_batches_of_workers_are_the_stock_loaders(root, name):
    dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS[name]))
    ours = batches(fastpipe.DataLoader, dataset, num_workers=2)
    assert equal(ours, batches(StockLoader, dataset, num_workers=2))
    assert all(in_shared_memory(images) for images, _ in ours)


@pytest.mark.slow
def test_spawned_workers(root):
    transform = T.Compose(TRANSFORMS["normalised"])
    expected = batches(StockLoader, fastpipe.ImageFolder(root, transform, seed=1), sampler=None)
    dataset = fastpipe.ImageFolder(root, transform, seed=1)
    torch.manual_seed(12)
    loader = fastpipe.DataLoader(
        dataset, 4, sampler=RandomSampler(dataset), num_workers=1, multiprocessing_context="spawn"
    )
    assert equal(list(loader), expected)


@pytest.mark.filterwarnings("ignore:threads=.* is Python code")
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("seed", [None, 3])
def test_threads_change_nothing(root, name, seed):
    transform = T.Compose(TRANSFORMS[name])
    plain = fastpipe.ImageFolder(root, transform, seed=seed)
    threaded = fastpipe.ImageFolder(root, transform, seed=seed, threads=3)
    expected = batches(StockLoader, plain)
    assert equal(batches(StockLoader, threaded), expected)
    assert equal(batches(fastpipe.DataLoader, threaded), batches(fastpipe.DataLoader, plain))
    in_threads = batches(fastpipe.DataLoader, plain, threads=2)  # without a seed, one worker's random numbers
    assert equal(in_threads, batches(fastpipe.DataLoader, plain, threads=1))
    if seed is not None:
        assert equal(in_threads, batches(fastpipe.DataLoader, plain))
    torch.manual_seed(0)
    samples = threaded.__getitems__(range(14))
    torch.manual_seed(0)
    assert isinstance(samples, list)
    random.seed(1)
    assert all(type(sample) is tuple for sample in samples)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.skipif(not FORK, reason="the other start methods are covered by one test: they start slowly")
def test_seeded_samples_are_the_same_for_workers_and_threads(root):
    def epoch(**options):
        dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["normalised"]), abs, seed=3)
        loader = fastpipe.DataLoader(dataset, batch_size=3, shuffle=True, **options)
        loader.set_epoch(2)
        return list(loader)

    expected = epoch()
    for workers in (0, 1, 2, 4):
        for threads in (0, 2):
            assert equal(epoch(num_workers=workers, threads=threads), expected)


class TestOutput:
    @pytest.mark.parametrize("name", [*PLANNED, "erased", "double", "foreign"])
    @pytest.mark.parametrize("dtype", [None, torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
    def test_dtype_and_memory_format(self, root, name, dtype, layout):
        dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS[name]))
        ours = batches(fastpipe.DataLoader, dataset, dtype=dtype, memory_format=layout)
        for (images, targets), (expected, labels) in zip(ours, batches(StockLoader, dataset), strict=True):
            wanted = dtype if dtype is not None and expected.is_floating_point() else expected.dtype
            assert images.dtype == wanted
            assert images.is_contiguous(memory_format=layout)
            assert torch.equal(images, expected.to(wanted))
            assert torch.equal(targets, labels)

    def test_own_collate_function_gets_samples(self, root):
        def collate(samples):
            assert type(samples) is list
            return torch.stack([image for image, _ in samples]), len(samples)

        dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["float"]))
        assert equal(
            batches(fastpipe.DataLoader, dataset, collate_fn=collate), batches(StockLoader, dataset, collate_fn=collate)
        )
        assert fastpipe.DataLoader(dataset, collate_fn=collate).collate_fn is collate
        for images, _ in batches(fastpipe.DataLoader, dataset, collate_fn=collate, dtype=torch.float16):
            assert images.dtype == torch.float16

    def test_one_by_one(self, root):
        dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["float"]), seed=1)
        assert equal(list(fastpipe.DataLoader(dataset, batch_size=None)), list(StockLoader(dataset, batch_size=None)))

    def test_subsets_and_concatenations(self, root):
        dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["float"]))
        for wrapped in (Subset(dataset, [5, 2, 9, 1, 1]), ConcatDataset([dataset, dataset])):
            assert equal(batches(fastpipe.DataLoader, wrapped), batches(StockLoader, wrapped))

    def test_other_datasets(self):
        data = torch.utils.data.TensorDataset(torch.arange(30.0).view(10, 3), torch.arange(10))
        assert equal(batches(fastpipe.DataLoader, data), batches(StockLoader, data))

    @pytest.mark.filterwarnings("ignore:threads=.* is Python code")
    @pytest.mark.parametrize("threads", [None, "auto"])
    @pytest.mark.parametrize("order", [{"sampler": [1, 2, 0]}, {"batch_sampler": [[1, 2], [0]]}])
    def test_a_dataset_without_a_length_needs_a_sampler(self, root, order, threads):
        dataset = WithoutLength(fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["float"]), seed=3))
        expected = list(StockLoader(dataset, **order))
        assert equal(list(fastpipe.DataLoader(dataset, threads=threads, **order)), expected)
        for given in ({}, {"shuffle": True}, {"batch_size": None}):
            with pytest.raises(
                DatasetError, match=r"^dataset=<.*WithoutLength object.*> has no length: give .* sampler"
            ):
                fastpipe.DataLoader(dataset, **given)

    def test_upright_images(self, root):
        dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["float"]), apply_exif=True)
        assert equal(batches(fastpipe.DataLoader, dataset), batches(StockLoader, dataset))

    def test_own_loader(self, root):
        dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["float"]), loader=load, threads=2)
        assert equal(batches(fastpipe.DataLoader, dataset), batches(StockLoader, dataset))

    @pytest.mark.parametrize("workers", [0, 1] if FORK else [0])
    def test_sizes_that_differ_and_a_missing_conversion_explain_themselves(self, root, workers):
        dataset = fastpipe.ImageFolder(root, T.Compose([T.ToTensor()]))
        with pytest.raises(
            RuntimeError, match=r"several shapes, \(3, \d+, \d+\) and .*Resize\(\(224, 224\)\).*collate_fn\. \("
        ):
            batches(fastpipe.DataLoader, dataset, num_workers=workers)
        with pytest.raises(TypeError, match=r"end the transform in ToTensor\(\)"):
            batches(fastpipe.DataLoader, fastpipe.ImageFolder(root, T.RandomCrop(20)), num_workers=workers)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
    def test_a_gpu_that_is_not_there(self, root):
        with pytest.raises(DatasetError, match=r"device='cuda:0': this torch \(.*\) is without"):
            fastpipe.DataLoader(fastpipe.ImageFolder(root), device="cuda:0")

    @pytest.mark.parametrize("threads", [0, 2])
    def test_bad_file_is_named(self, root, tmp_path, threads):
        (tmp_path / "class").mkdir()
        for path in sorted(root.rglob("*.jpg"))[:3]:
            (tmp_path / "class" / path.name).write_bytes(path.read_bytes())
        (tmp_path / "class" / "zbad.jpg").write_bytes(path.read_bytes()[:-400])
        loader = fastpipe.DataLoader(
            fastpipe.ImageFolder(tmp_path, T.Compose(TRANSFORMS["float"]), threads=threads), batch_size=4
        )
        with pytest.raises(DecodeError, match=r"zbad\.jpg"):
            list(loader)


def load(path):
    return Image.open(path).convert("RGB")


class TestArguments:
    def test_shuffle_is_torchs_order(self):
        data = list(range(10_000))
        ours = fastpipe.DataLoader(data, shuffle=True, generator=torch.Generator().manual_seed(3), batch_size=64)
        stock = StockLoader(data, shuffle=True, generator=torch.Generator().manual_seed(3), batch_size=64)
        for _ in range(3):  # a generator that is used on stays in step
            assert all(torch.equal(a, b) for a, b in zip(ours, stock, strict=True))
        assert isinstance(ours.sampler, RandomSampler)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"dtype": torch.uint8}, "PILToTensor"),
            ({"memory_format": torch.preserve_format}, "channels_last"),
            ({"threads": -1}, "threads=-1"),
        ],
    )
    def test_bad_ones_say_what_to_do(self, root, options, message):
        with pytest.raises(DatasetError, match=message):
            fastpipe.DataLoader(fastpipe.ImageFolder(root), **options)
        if "threads" in options:
            with pytest.raises(DatasetError, match=message):
                fastpipe.ImageFolder(root, **options)

    def test_defaults(self, root):
        dataset = fastpipe.ImageFolder(root)
        assert not fastpipe.DataLoader(dataset, num_workers=1).persistent_workers
        assert fastpipe.DataLoader(dataset, num_workers=1, persistent_workers=True).persistent_workers
        assert not fastpipe.DataLoader(dataset).persistent_workers
        with pytest.raises(ValueError, match="mutually exclusive"):
            fastpipe.DataLoader(dataset, shuffle=True, sampler=[1, 2])

    def test_asking_for_batches_ends_where_it_should(self, root):
        dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["float"]))
        iterator = iter(fastpipe.DataLoader(dataset, batch_size=2))
        next(iterator)
        assert isinstance(dataset.__getitems__([0, 1]), list)
        assert isinstance(dataset.batch([0, 1], BatchSpec()), ImageBatch)
        assert isinstance(dataset.batch([0, 1], BatchSpec(as_list=True)), list)


class TestResume:
    @pytest.mark.parametrize("workers", [0, 2] if FORK else [0])
    def test_rest_of_the_epoch_then_the_next(self, root, workers):
        def loader():
            dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["float"]), seed=8)
            return fastpipe.DataLoader(dataset, batch_size=3, shuffle=True, num_workers=workers)

        whole = loader()
        assert isinstance(whole.sampler, samplers.ShuffledSampler)
        expected = []
        for epoch in (4, 5):
            whole.set_epoch(epoch)
            expected.append(list(whole))
        first = loader()
        first.set_epoch(4)
        iterator = iter(first)
        equal([next(iterator), next(iterator)], expected[0][:2])
        state = first.state_dict()
        assert state["sampler"]["position"] == 6
        resumed = loader()
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        resumed.set_epoch(4)
        iterator = iter(resumed)
        equal([next(iterator)], expected[0][2:3])
        again = loader()
        again.load_state_dict(resumed.state_dict())
        assert equal(list(again), expected[0][3:])
        again.set_epoch(5)
        assert equal(list(again), expected[1])

    @pytest.mark.slow
    @pytest.mark.parametrize("workers", [0, 1] if FORK else [0])
    @pytest.mark.parametrize("shuffle", [False, True])
    @pytest.mark.parametrize("stop", [0, 2, 5, None])
    def test_without_a_seed_order_and_position(self, shuffle, workers, stop):
        """With a generator, later epochs go on as in the run that was saved; with the global one, this epoch does."""
        for given in (True, False) if shuffle else (False,):

            def loader(seed):
                generator = torch.Generator().manual_seed(seed) if given else None  # noqa: B023 - called now
                options = {"shuffle": shuffle, "generator": generator}
                return fastpipe.DataLoader(range(23), 4, drop_last=True, num_workers=workers, **options)

            saved = loader(1)
            list(saved)
            batches = iter(saved)
            done = list(batches) if stop is None else [next(batches) for _ in range(stop)]
            state = saved.state_dict()
            rest = list(batches) if stop else []
            following = [torch.cat(list(saved)) for _ in range(2)]
            resumed = loader(2)
            resumed.load_state_dict(state)
            assert len(done) + len(rest) == (5 if stop != 0 else 0)
            if stop:
                assert list(map(torch.Tensor.tolist, resumed)) == [batch.tolist() for batch in rest]
            if stop != 0 and (given or not shuffle):
                assert all(torch.equal(torch.cat(list(resumed)), one) for one in following)

    def test_a_state_of_something_else_is_refused_in_words(self, root):
        def loader(shuffle, seed=None):
            return fastpipe.DataLoader(fastpipe.ImageFolder(root, seed=seed), shuffle=shuffle)

        shuffled, in_order, seeded = loader(True), loader(False), loader(True, 3)
        states = [one.state_dict() for one in (shuffled, in_order, seeded)]
        kinds = [
            r"RandomSampler \(shuffle=True",
            r"SequentialSampler \(shuffle=False",
            "ShuffledSampler.*a seed decides",
        ]
        said = ["with shuffle=True, without a seed", "with shuffle=False", "with an order that a seed decides"]
        for one, kind in zip((shuffled, in_order, seeded), kinds, strict=True):
            for other, state, what in zip((shuffled, in_order, seeded), states, said, strict=True):
                if one is other:
                    one.load_state_dict(state)
                else:
                    with pytest.raises(DatasetError, match=f"{kind}.*{what}"):
                        one.load_state_dict(state)
        checkpoint = {"model": {}, "epoch": 3, "loader": states[0]}
        with pytest.raises(DatasetError, match=r"a dict with 'model', 'epoch', 'loader', .*: state\['loader'\] is one"):
            shuffled.load_state_dict(checkpoint)
        for wrong in ({}, None, states[0]["sampler"], {"sampler": {}}):
            with pytest.raises(DatasetError, match=r"takes what DataLoader\.state_dict\(\) returned"):
                shuffled.load_state_dict(wrong)
        with pytest.raises(DatasetError, match=r"got dict \['dataset', 'sampler'\]: give what a sampler's state_dict"):
            shuffled.sampler.load_state_dict(states[0])

    def test_needs_a_sampler_that_can(self, root):
        dataset = fastpipe.ImageFolder(root)
        loader = fastpipe.DataLoader(dataset, sampler=RandomSampler(dataset))
        with pytest.raises(DatasetError, match=r"fastpipe\.samplers, or give the loader none"):
            loader.state_dict()
        with pytest.raises(DatasetError, match=r"fastpipe\.samplers"):
            loader.load_state_dict({})


class Probe:
    """A worker's own view: its number, its seed and its dataset."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        info = get_worker_info()
        numbers = [random.random(), float(np.random.rand()), float(torch.rand(()))]
        return torch.tensor(
            [index, info.id, cv2.getNumThreads(), torch.get_num_threads(), *numbers], dtype=torch.float64
        )


def mark(worker):
    torch.manual_seed(worker)
    random.seed(worker)


@pytest.mark.skipif(not FORK, reason="looks into forked workers")
class TestWorkers:
    def test_threads_and_seeds(self):
        before = cv2.getNumThreads(), torch.get_num_threads()
        rows = torch.cat(list(fastpipe.DataLoader(Probe(), batch_size=1, num_workers=2)))
        assert (cv2.getNumThreads(), torch.get_num_threads()) == before
        assert set(rows[:, 1].tolist()) == {0, 1}
        assert (rows[:, 2:4] == 1).all()
        for column in (4, 5, 6):
            assert len(set(rows[:, column].tolist())) == 8

    def test_streams_are_the_stock_loaders(self):
        def rows(loader_class, **options):
            torch.manual_seed(4)
            return torch.cat(list(loader_class(Probe(), batch_size=2, num_workers=2, **options)))

        assert torch.equal(rows(fastpipe.DataLoader)[:, 4:], rows(StockLoader)[:, 4:])
        marked = rows(fastpipe.DataLoader, worker_init_fn=mark)
        assert torch.equal(marked[:, 4:], rows(StockLoader, worker_init_fn=mark)[:, 4:])

    def test_fork_behind_cv2s_and_our_own_threads(self, root):
        """The parent's thread pools don't exist in a forked worker: using them there hangs."""
        threads = cv2.getNumThreads()
        try:
            cv2.setNumThreads(4)
            cv2.GaussianBlur(np.zeros((2000, 2000, 3), np.uint8), (31, 31), 5)
            dataset = fastpipe.ImageFolder(root, T.Compose(TRANSFORMS["float"]), seed=1, threads=2)
            expected = list(fastpipe.DataLoader(dataset, batch_size=4))
            loader = fastpipe.DataLoader(dataset, batch_size=4, num_workers=2, timeout=600)
            assert equal(list(loader), expected)
            assert cv2.getNumThreads() == 4
        finally:
            cv2.setNumThreads(threads)

"""A state of one number of ranks, loaded on another: nothing of an epoch is lost, and nothing comes twice."""

from __future__ import annotations

import io
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import ConcatDataset, Subset

import fastpipe
from fastpipe import samplers
from fastpipe import transforms as T
from fastpipe.errors import DatasetError, FastpipeWarning

KINDS = ("shuffled", "in order", "weighted", "weighted, each once", "balanced")


def sampler_of(kind: str, length: int, ranks: int = 1, rank: int = 0, drop_last: bool = False) -> Any:
    if kind in ("shuffled", "in order"):
        return samplers.DistributedSampler(length, ranks, rank, kind == "shuffled", seed=3, drop_last=drop_last)
    division: Any = {"seed": 3, "num_replicas": ranks, "rank": rank, "drop_last": drop_last}
    if kind == "balanced":
        return samplers.ClassBalancedSampler([number % 3 for number in range(length)], **division)
    weights = np.arange(length) + 1.0
    return samplers.WeightedSampler(weights, length, replacement=kind == "weighted", **division)


def in_turns(parts: list[list[int]]) -> list[int]:
    """The order of all ranks, whose indices take turns."""
    return [index for row in itertools.zip_longest(*parts) for index in row if index is not None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("before", "after"), list(itertools.product((1, 2, 3), repeat=2)))
def test_every_stop_on_every_pair_of_ranks(before, after, drop_last, kind):
    length = 13
    order = list(sampler_of(kind, length))
    then = [sampler_of(kind, length, after, rank, drop_last) for rank in range(after)]
    following = [list(itertools.islice(iter(one), None)) for one in map(begun_epoch, then)]
    for stop in range(sampler_of(kind, length, before, 0, drop_last).epoch_length + 1):
        saved = [sampler_of(kind, length, before, rank, drop_last) for rank in range(before)]
        given = [list(itertools.islice(iter(one), stop)) for one in saved]
        assert in_turns(given)[:length] == order[: min(stop * before, length)]
        for state in (saved[-1].state_dict(stop), samplers.merge_states([one.state_dict(stop) for one in saved])):
            resumed = [sampler_of(kind, length, after, rank, drop_last) for rank in range(after)]
            for one in resumed:
                one.load_state_dict(state)
            rest = in_turns([list(one) for one in resumed])
            left = order[stop * before :]
            count = len(left) // after * after if drop_last else -(-len(left) // after) * after
            assert rest == (left + order * 3)[:count]  # padding goes on from the order's front
            assert [list(one) for one in resumed] == following  # the next epoch


def begun_epoch(sampler: Any) -> Any:
    """The sampler, at its next epoch."""
    sampler.set_epoch(1)
    return sampler


@given(
    length=st.integers(0, 60),
    runs=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 20)), min_size=1, max_size=5),
    seed=st.integers(0, 5),
)
def test_a_run_that_is_moved_again_and_again(length, runs, seed):
    """Each time on other ranks: the whole epoch is one order, each index once, whatever was the division."""
    done: list[int] = []
    state = None
    for ranks, steps in [*runs, (1, length)]:
        here = [samplers.DistributedSampler(length, ranks, rank, seed=seed) for rank in range(ranks)]
        if state is not None:
            for one in here:
                one.load_state_dict(state)
        starts = here[0].next_start
        done += in_turns([list(itertools.islice(iter(one), steps)) for one in here])[: max(0, length - len(done))]
        state = here[0].state_dict(min(starts + steps, here[0].epoch_length))
    alone = list(samplers.ShuffledSampler(length, seed))
    assert done == alone


def test_one_process_goes_on_on_many_ranks_and_back():
    alone = samplers.ShuffledSampler(100, seed=4)
    order = list(alone)
    alone.set_epoch(0)
    list(itertools.islice(iter(alone), 31))
    many = [samplers.DistributedSampler(100, 4, rank, seed=4) for rank in range(4)]
    for one in many:
        one.load_state_dict(alone.state_dict())
    given = [list(itertools.islice(iter(one), 5)) for one in many]
    assert in_turns(given) == order[31:51]
    back = samplers.ShuffledSampler(100, seed=4)
    back.load_state_dict(many[2].state_dict(5))
    assert list(back) == order[51:]
    with pytest.raises(DatasetError, match=r"shuffle=False.*an order that a seed decides"):
        samplers.SequentialSampler(range(100)).load_state_dict(alone.state_dict())


class TestMergeStates:
    def states(self, *positions: int) -> list[dict[str, Any]]:
        ranks = len(positions)
        return [
            samplers.DistributedSampler(50, ranks, rank, seed=1).state_dict(position)
            for rank, position in enumerate(positions)
        ]

    def test_the_least_far_counts(self):
        merged = samplers.merge_states(self.states(8, 4, 8))
        assert (merged["position"], merged["num_replicas"]) == (4, 3)
        ended = self.states(17, 17, 17)
        ended[0].update(epoch=1, position=3)  # it has begun the next one
        ended[1]["finished"] = ended[2]["finished"] = True
        assert samplers.merge_states(ended)["epoch"] == 0
        assert samplers.merge_states([{"sampler": one, "dataset": {}} for one in ended])["sampler"]["finished"]

    def test_what_does_not_belong_together(self):
        with pytest.raises(DatasetError, match=r"ranks 0, 1, saved by 3 ranks: give the state of each rank once"):
            samplers.merge_states(self.states(1, 1, 1)[:2])
        with pytest.raises(DatasetError, match=r"ranks 0, 0, saved by 2 ranks"):
            samplers.merge_states([self.states(1, 1)[0]] * 2)
        with pytest.raises(DatasetError, match="merge_states takes the states"):
            samplers.merge_states([{"epoch": 1}])
        with pytest.raises(DatasetError, match="merge_states takes the states"):
            samplers.merge_states([])
        other = self.states(2, 2)
        other[1]["seed"] = 9
        with pytest.raises(DatasetError, match="of different runs: seed is 1 or 9"):
            samplers.merge_states(other)


class TestWeighted:
    def test_draws_follow_the_weights(self):
        weights = np.array([0, 1, 0, 2, 5, 0.0])
        drawn = Counter(samplers.WeightedSampler(weights, 80_000, seed=1))
        assert set(drawn) == {1, 3, 4}
        for index, expected in ((1, 10_000), (3, 20_000), (4, 50_000)):
            assert abs(drawn[index] - expected) < 5 * expected**0.5  # five standard deviations at most

    def test_without_replacement_the_first_follow_the_weights(self):
        firsts = Counter()
        for seed in range(4_000):
            order = list(samplers.WeightedSampler([1, 0, 3], 2, replacement=False, seed=seed))
            assert sorted(order) == [0, 2]
            firsts[order[0]] += 1
        assert abs(firsts[2] - 3_000) < 5 * (4_000 * 0.25 * 0.75) ** 0.5

    def test_classes_come_equally_often(self):
        targets = [0] * 900 + [1] * 90 + [2] * 10
        drawn = Counter(targets[index] for index in samplers.ClassBalancedSampler(targets, 30_000, seed=2))
        assert all(abs(count - 10_000) < 5 * (30_000 * 2 / 9) ** 0.5 for count in drawn.values())

    def test_epochs_and_seeds_differ_and_repeat(self):
        def order(seed, epoch):
            sampler = samplers.WeightedSampler(np.ones(50), seed=seed)
            sampler.set_epoch(epoch)
            return list(sampler)

        assert order(0, 0) == order(0, 0)
        assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9

    def test_targets_of_datasets(self, root):
        dataset = fastpipe.ImageFolder(root)
        half = Subset(dataset, [1, 3, 5, 7, 0])
        both = ConcatDataset([half, dataset])
        expected = [dataset.targets[index] for index in (1, 3, 5, 7, 0)]
        for thing, targets in ((dataset, dataset.targets), (half, expected), (both, expected + list(dataset.targets))):
            found = samplers.ClassBalancedSampler(thing, seed=5)
            assert list(found) == list(samplers.ClassBalancedSampler(list(targets), seed=5))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([],), "weights of shape"),
            (([1, -1],), "none negative"),
            (([0, 0],), "not all 0"),
            (([1, float("nan")],), "finite"),
            (([[1.0]],), "weights of shape"),
            (([1, 0, 1], 3, False), "from 1 to 2, the positive weights"),
            (([1], 0), "num_samples=0"),
            (([1], 1, True, 0, 2, 2), "rank=2: give this process's rank, .* from 0 to 1"),
        ],
    )
    def test_bad_arguments(self, arguments, message):
        with pytest.raises(DatasetError, match=message):
            samplers.WeightedSampler(*arguments)

    def test_a_dataset_without_targets(self):
        class Nothing:
            def __len__(self) -> int:
                return 3

        with pytest.raises(DatasetError, match="a Nothing has no targets"):
            samplers.ClassBalancedSampler(Nothing())

    def test_other_weights_are_refused(self):
        state = samplers.WeightedSampler([1, 2, 3], seed=1).state_dict()
        with pytest.raises(DatasetError, match="has weights="):
            samplers.WeightedSampler([1, 2, 4], seed=1).load_state_dict(state)


def photos(root: Path, count: int = 14) -> Path:
    for number in range(count):
        path = root / f"class{number % 2}" / f"{number:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(corpus.files()["jpeg-420"])
    return root


def loaders(dataset: Any, ranks: int, batch_size: int, **options: Any) -> list[Any]:
    return [
        fastpipe.DataLoader(
            dataset, batch_size, sampler=samplers.DistributedSampler(dataset, ranks, rank, seed=6), **options
        )
        for rank in range(ranks)
    ]


@pytest.fixture
def seeded(tmp_path: Path) -> Any:
    """A dataset whose samples are (pixels, path's number)."""
    transform = T.Compose([T.RandomResizedCrop(16), T.ToTensor()])
    return fastpipe.ImageFolder(photos(tmp_path / "photos"), transform, seed=2, target_transform=None)


@pytest.mark.parametrize("options", [{}, {"threads": 2}, pytest.param({"num_workers": 1}, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("before", "after", "sizes"), [(2, 1, (2, 3)), (1, 2, (3, 2)), (3, 2, (1, 2))])
def test_loaders_give_the_same_samples(seeded, before, after, sizes, options):
    expected = {index: seeded[index][0] for index in range(len(seeded))}
    order = list(samplers.ShuffledSampler(len(seeded), seed=6))
    saved = loaders(seeded, before, sizes[0], **options)
    walks = [iter(one) for one in saved]
    for walk in walks:
        next(walk), next(walk)
    state = samplers.merge_states([one.state_dict() for one in saved])
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    del walks, saved
    seeded.set_epoch(0)
    resumed = loaders(seeded, after, sizes[1], **options)
    for one in resumed:
        one.load_state_dict(state)
    images = in_turns([[image for batch, _ in one for image in batch] for one in resumed])
    rest = order[2 * sizes[0] * before :]
    assert len(images) >= len(rest)
    for image, index in zip(images, rest, strict=False):
        assert torch.equal(image, expected[index])


class TestChangedDatasets:
    def test_another_length(self, tmp_path):
        root = photos(tmp_path / "photos", 10)
        state = fastpipe.DataLoader(fastpipe.ImageFolder(root), 2, shuffle=True).state_dict()
        photos(root, 12)
        loader = fastpipe.DataLoader(fastpipe.ImageFolder(root), 2, shuffle=True)
        with pytest.raises(DatasetError, match=r"it has 12 samples, and had 10.*allow_changes=True"):
            loader.load_state_dict(state)
        with pytest.warns(FastpipeWarning, match="it has 12 samples, and had 10"):
            loader.load_state_dict(state, allow_changes=True)

    def test_other_files_of_the_same_number(self, tmp_path):
        root = photos(tmp_path / "photos", 10)
        dataset = fastpipe.ImageFolder(root, seed=1)
        loader = fastpipe.DataLoader(dataset, 2, shuffle=True, collate_fn=list)
        walk = iter(loader)
        next(walk)
        state = loader.state_dict()
        (root / "class1" / "03.jpg").rename(root / "class0" / "03.jpg")
        changed = fastpipe.DataLoader(fastpipe.ImageFolder(root, seed=1), 2, shuffle=True, collate_fn=list)
        with pytest.raises(DatasetError, match=r"of 10 compared samples differ; the first is 2, now .*03"):
            changed.load_state_dict(state)
        with pytest.warns(FastpipeWarning, match="Samples may come twice in this epoch, or not at all"):
            changed.load_state_dict(state, allow_changes=True)
        assert sum(len(batch) for batch in changed) == 8

    def test_moved_to_another_folder(self, tmp_path):
        state = fastpipe.DataLoader(fastpipe.ImageFolder(photos(tmp_path / "a" / "photos")), 2).state_dict()
        moved = fastpipe.DataLoader(fastpipe.ImageFolder(photos(tmp_path / "b" / "photos")), 2)
        moved.load_state_dict(state)

    def test_subsets_and_concatenations(self, tmp_path):
        dataset = fastpipe.ImageFolder(photos(tmp_path / "photos", 10))
        subset = Subset(dataset, [5, 2, 8])
        state = fastpipe.DataLoader(ConcatDataset([subset, dataset]), 2).state_dict()
        fastpipe.DataLoader(ConcatDataset([Subset(dataset, [5, 2, 8]), dataset]), 2).load_state_dict(state)
        with pytest.raises(DatasetError, match="1 of 13 compared samples differ; the first is 1"):
            fastpipe.DataLoader(ConcatDataset([Subset(dataset, [5, 3, 8]), dataset]), 2).load_state_dict(state)

    def test_what_has_no_names_is_compared_by_its_length(self):
        state = fastpipe.DataLoader(range(10), 2).state_dict()
        with pytest.raises(DatasetError, match="has length=11, the state was saved with length=10"):
            fastpipe.DataLoader(range(11), 2).load_state_dict(state)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stop", [0, 1, 3, 6])
def test_in_torchdatas_stateful_loader(workers, stop):
    """Its protocol is `state_dict` and `load_state_dict`, which our loader and samplers have."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    assert isinstance(fastpipe.DataLoader(range(9), 2), stateful.Stateful)

    def loader() -> Any:
        sampler = samplers.ShuffledSampler(13, seed=8)
        return stateful.StatefulDataLoader(range(13), 2, sampler=sampler, num_workers=workers)

    expected = [batch.tolist() for batch in loader()]
    saved = loader()
    walk = iter(saved)
    given = [next(walk).tolist() for _ in range(stop)]
    resumed = loader()
    resumed.load_state_dict(saved.state_dict())
    assert given + [batch.tolist() for batch in resumed] == expected


@pytest.mark.slow
def test_lightning_resumes_within_an_epoch(seeded, tmp_path):
    import torchvision_here  # noqa: F401  (lightning imports torchvision)

    lightning = pytest.importorskip("lightning.pytorch")

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen: list[torch.Tensor] = []

        def training_step(self, batch, index):
            self.seen.append(batch[0].clone())
            return self.layer(batch[0].mean()[None]).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    def fit(resume: Any = None) -> list[torch.Tensor]:
        seeded.set_epoch(0)
        saves = lightning.callbacks.ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=2, save_top_k=-1)
        trainer = lightning.Trainer(
            max_steps=9,  # five batches an epoch
            accelerator="cpu",
            callbacks=[saves],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        model = Model()
        trainer.fit(model, fastpipe.DataLoader(seeded, 3, shuffle=True), ckpt_path=resume, weights_only=False)
        return model.seen

    whole = fit()
    for step in (2, 8):
        resumed = fit(tmp_path / f"step={step}.ckpt")
        assert len(resumed) == 9 - step
        assert all(torch.equal(one, other) for one, other in zip(resumed, whole[step:], strict=True))

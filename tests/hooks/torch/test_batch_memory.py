"""Batches of torch's own loader over data sets of one's own: memory of samples and batches, all values as torch's."""

from __future__ import annotations

import functools
import threading
from collections import deque, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hooks.photo_batches import NORMALIZE, Photos, Stream, as_it_is, doubled, stacked, stacked_otherwise, train
from PIL import Image
from plain_and_hooked import assert_as_plain, epoch
from torch.utils.data import DataLoader, Subset, default_collate
from torchvision_here import module, torchvision

import fastpipe
import fastpipe.program.on_image  # from whose import on batches are fetched by the hooks
from fastpipe import core
from fastpipe.hooks.ledger import LEDGER

T = torchvision.transforms
COUNT = 20


class Held:
    """An object of a user's with tensors."""

    def __init__(self, image: torch.Tensor, other: torch.Tensor) -> None:
        self.image, self.other = image, other


class Several(Photos):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def recipes() -> dict[str, Callable[[], Any]]:
    v2 = module("torchvision.transforms.v2")
    scaled = v2.ToDtype(torch.float32, scale=True)
    to_floats, numbers = [v2.ToImage(), scaled], v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    v2_train = [v2.RandomResizedCrop(128), v2.RandomHorizontalFlip()]
    return {
        "train": train,
        "evaluation": lambda: T.Compose([T.Resize(150), T.CenterCrop(128), T.ToTensor(), NORMALIZE]),
        "uint8": lambda: T.Compose([T.RandomResizedCrop(224), T.PILToTensor()]),
        "erasing": lambda: T.Compose([*train().transforms, T.RandomErasing(p=0.7)]),
        "gray": lambda: T.Compose([T.Grayscale(), T.RandomResizedCrop(224), T.ToTensor()]),
        "v2 image": lambda: v2.Compose([v2.ToImage(), v2.RandomResizedCrop(128), scaled]),
        "v2 training": lambda: v2.Compose([*v2_train, *to_floats, numbers]),
        "v2 floats first": lambda: v2.Compose([*to_floats, *v2_train, numbers]),
        "floats first": lambda: T.Compose([T.ToTensor(), T.Resize(150), T.RandomCrop(128), NORMALIZE]),
        "v2 uint8": lambda: v2.Compose([v2.PILToTensor(), v2.RandomResizedCrop(224, antialias=True)]),
        "one by one": lambda: lambda image: NORMALIZE(T.ToTensor()(T.RandomCrop(112)(image))),
    }


class TestSamplesAsTorch:
    @pytest.mark.parametrize("name", recipes())
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_recipes(self, photos: list[str], name: str, seed: int) -> None:
        assert_as_plain(Photos(photos, recipes()[name]()), seed)

    @pytest.mark.parametrize("form", ["dict", "views", "changed", "worked on", "redrawn", "sometimes"])
    def test_forms_of_samples(self, photos: list[str], form: str) -> None:
        for seed in range(2):
            assert_as_plain(Photos(photos, train(), form), seed)
            assert_as_plain(Photos(photos, recipes()["v2 training"](), form), seed)
            assert_as_plain(Subset(Several(photos, train(), form), range(3, COUNT)), seed)
            assert_as_plain(Subset(Photos(photos, train(), form), range(3, COUNT)), seed, drop_last=True)

    @pytest.mark.parametrize("collate", [default_collate, stacked, stacked_otherwise, doubled, as_it_is])
    def test_classes_that_torchvision_is_asked_for(self, photos: list[str], collate: Callable[..., Any]) -> None:
        """``set_return_type("TVTensor")``: a stack of images is an image, too."""
        dataset = Photos(photos, recipes()["v2 training"]())
        for return_type in ("TVTensor", "Tensor"):
            with torchvision.tv_tensors.set_return_type(return_type):
                assert_as_plain(dataset, batch_size=5, collate_fn=collate)

    def test_crops_of_two_sizes(self, photos: list[str]) -> None:
        class Crops(Photos):
            def __getitem__(self, index: int) -> Any:
                image = Image.open(self.files[index]).convert("RGB")
                return [train(112)(image) for _ in range(2)] + [train(96)(image) for _ in range(3)]

        assert_as_plain(Crops(photos, None), batch_size=10)

    @pytest.mark.parametrize(
        ("method", "form", "workers"), [("fork", "pair", 2), ("fork", "views", 2), ("spawn", "pair", 1)]
    )
    def test_workers(self, photos: list[str], method: str, form: str, workers: int) -> None:
        dataset = Photos(photos, train(), form)
        assert_as_plain(dataset, num_workers=workers, multiprocessing_context=method)

    @pytest.mark.parametrize("name", ["uint8", "v2 image"])
    def test_layouts_in_workers(self, photos: list[str], name: str) -> None:
        assert_as_plain(Photos(photos, recipes()[name]()), num_workers=2)

    @pytest.mark.parametrize("workers", [0, 2])
    def test_collate_functions(self, photos: list[str], workers: int) -> None:
        for collate in (as_it_is, doubled, default_collate):
            assert_as_plain(Photos(photos, train()), collate_fn=collate, num_workers=workers)

    def test_without_batches(self, photos: list[str]) -> None:
        assert_as_plain(Photos(photos, train()), batch_size=None)

    def test_images_that_others_make(self, photos: list[str]) -> None:
        made = [torch.rand(3, 200, 200) for _ in range(COUNT)]
        made[3] = made[3].permute(0, 2, 1)
        assert_as_plain(made)
        assert_as_plain([made[0].double(), made[1], made[2].clone().requires_grad_()], batch_size=3)

    def test_layouts_of_several_crops(self, photos: list[str], installed: None) -> None:
        planes = [torch.rand(10, 3, 64, 64) for _ in range(3)]
        pixels = [one.contiguous(memory_format=torch.channels_last) for one in planes]
        for samples in (planes, pixels, [planes[0], *pixels], [*pixels[:2], planes[2]]):
            Photos(photos, train())[0]
            (made,) = DataLoader(samples, batch_size=len(samples))
            expected = torch.stack(samples)
            assert torch.equal(made, expected)
            assert made.stride() == expected.stride()

    def test_errors_are_torchs(self, photos: list[str], installed: None) -> None:
        with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
            epoch(Photos(photos, T.ToTensor()))
        with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
            epoch(Photos(photos, T.RandomCrop(64)))

    def test_an_error_in_a_sample_leaves_nothing_behind(self, photos: list[str]) -> None:
        class Failing(Photos):
            fails = True

            def __getitem__(self, index: int) -> Any:
                made = super().__getitem__(index)
                if self.fails and index == 5:
                    raise KeyError("mine")
                return made

        dataset = Failing(photos, train())
        with fastpipe.install(check=0), pytest.raises(KeyError, match="mine"):
            epoch(dataset)
        dataset.fails = False
        assert_as_plain(dataset)

    def test_a_loader_within_a_sample(self, photos: list[str]) -> None:
        class Nested(Photos):
            def __getitem__(self, index: int) -> Any:
                inner = DataLoader(Photos(self.files[:4], train()), batch_size=4)
                first = super().__getitem__(index)[0]
                return first, next(iter(inner))[0].mean(), super().__getitem__(index)[0]

        assert_as_plain(Nested(photos, train()))

    def test_threads_within_a_sample(self, photos: list[str]) -> None:
        class Threaded(Photos):
            def __getitem__(self, index: int) -> Any:
                made: list[Any] = []
                thread = threading.Thread(target=lambda: made.append(super(Threaded, self).__getitem__(index)))
                thread.start()
                thread.join()
                return made[0]

        assert_as_plain(Threaded(photos, T.Compose([T.CenterCrop(128), T.ToTensor()])))

    @pytest.mark.parametrize("workers", [0, 2])
    @pytest.mark.parametrize("collate", ["default_collate", "stacked", "stacked_otherwise"])
    def test_streams(self, photos: list[str], workers: int, collate: str) -> None:
        function = {"default_collate": default_collate, "stacked": stacked, "stacked_otherwise": stacked_otherwise}
        for drop_last in (False, True):
            options = {"num_workers": workers, "drop_last": drop_last, "collate_fn": function[collate]}
            for ahead in (0, 3):
                assert_as_plain(Stream(photos, train(), ahead), shuffle=False, **options)

    def test_a_collate_function_that_stacks(self, photos: list[str]) -> None:
        for form in ("dict", "views", "sometimes"):
            for collate in (stacked, stacked_otherwise):
                assert_as_plain(Photos(photos, train(), form), collate_fn=collate)

    @pytest.mark.needs_core
    @pytest.mark.parametrize("make", [lambda files: Photos(files, train()), lambda files: Stream(files, train(), 0)])
    def test_what_a_collate_function_stacks_has_no_pixels_before(self, photos: list[str], make: Any) -> None:
        def collate(samples: list[Any]) -> Any:
            pending.append([fastpipe.is_pending(image) for image, _ in samples])
            images = [image for image, _ in samples]
            return torch.stack(images), images[1] * 2, v2.functional.horizontal_flip(images[2]), images

        v2 = module("torchvision.transforms.v2")
        pending: list[list[bool]] = []
        assert_as_plain(make(photos), batch_size=10, shuffle=False, collate_fn=collate)
        assert pending == [[False] * 10] * 2 + [[True] * 10, [False] * 10]  # as the first batch's are kept

    @pytest.mark.needs_core
    @pytest.mark.parametrize("make", [lambda files: Photos(files, train()), lambda files: Stream(files, train(), 0)])
    def test_all_batches_have_no_pixels_before(self, photos: list[str], make: Any) -> None:
        def collate(samples: list[Any]) -> Any:
            pending.append([fastpipe.is_pending(image) for image, _ in samples])
            return torch.stack([image for image, _ in samples])

        pending: list[list[bool]] = []
        assert_as_plain(make(photos), batch_size=10, shuffle=False, collate_fn=collate)
        assert pending == [[False] * 10] * 2 + [[True] * 10] * 2

    @pytest.mark.needs_core
    def test_views_have_their_pixels_before_from_the_first_on(self, photos: list[str], installed: None) -> None:
        def collate(samples: list[Any]) -> Any:
            pending.append([fastpipe.is_pending(image) for views, _ in samples for image in views])
            return default_collate(samples)

        pending: list[list[bool]] = []
        list(DataLoader(Photos(photos, train(), "views"), batch_size=10, collate_fn=collate))
        assert pending == [[True, True] + [False] * 18, [False] * 20]

    @pytest.mark.parametrize("wrap", [lambda dataset: dataset, lambda dataset: Subset(dataset, range(COUNT))])
    def test_a_data_set_that_asks_for_types_gets_tensors(self, photos: list[str], installed: None, wrap: Any) -> None:
        class Asking(Photos):
            def __getitem__(self, index: int) -> Any:
                made, label = super().__getitem__(index)
                kinds.add(type(made))
                return made, label

        kinds: set[type] = set()
        list(DataLoader(wrap(Asking(photos, train())), batch_size=10))
        assert kinds == {torch.Tensor}

    @pytest.mark.needs_core
    def test_files_that_take_too_much_memory(self, photos: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        def collate(samples: list[Any]) -> Any:
            pending.append(sum(fastpipe.is_pending(image) for image, _ in samples))
            return default_collate(samples)

        monkeypatch.setattr("fastpipe.hooks.torch.batch_memory.MOST_HELD", 3 * Path(photos[0]).stat().st_size)
        pending: list[int] = []
        assert_as_plain(Photos(photos, train()), batch_size=10, collate_fn=collate)
        assert pending[:2] == [0, 0]
        assert set(pending[2:]) <= {3, 4, 5}

    @pytest.mark.parametrize("threads", [2, 5])
    def test_threads(self, photos: list[str], threads: int) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            assert_as_plain(Photos(photos, train()), batch_size=10)
        finally:
            torch.set_num_threads(before)

    @pytest.mark.parametrize("name", ["train", "one by one"])
    def test_what_is_held_is_an_ordinary_tensor(self, photos: list[str], installed: None, name: str) -> None:
        def collate(samples: list[Any]) -> Any:
            images = [image for image, _ in samples]
            kept.append(images[0])
            torch.stack(images[:4])
            return Held(*images[4:6]), namedtuple("Pair", "image more")(images[6], {"deque": deque(images[7:])})

        kept: list[torch.Tensor] = []
        for held, pair in DataLoader(Photos(photos, recipes()[name]()), batch_size=10, collate_fn=collate):
            tensors = [held.image, held.other, pair.image, *pair.more["deque"], *kept]
            assert {type(one) for one in tensors} == {torch.Tensor}

    def test_a_collate_function_that_asks_for_types_gets_ordinary_tensors(self, photos: list[str]) -> None:
        def collate(samples: list[Any]) -> Any:
            return torch.stack([image + 1 if type(image) is torch.Tensor else image for image, _ in samples])

        class Collate:
            def __call__(self, samples: list[Any]) -> Any:
                return torch.stack([self.changed(image) for image, _ in samples])

            def changed(self, image: torch.Tensor) -> torch.Tensor:
                return image + 1 if isinstance(image, torch.Tensor) else image

        for one in (collate, functools.partial(collate), Collate()):
            assert_as_plain(Photos(photos, train()), batch_size=5, collate_fn=one)

    @pytest.mark.needs_core
    def test_what_nobody_stacks_is_made_at_once(self, photos: list[str], installed: None) -> None:
        def collate(samples: list[Any]) -> Any:
            pending.append([fastpipe.is_pending(image) for image, _ in samples])
            return [image * 2 for image, _ in samples]

        pending: list[list[bool]] = []
        list(DataLoader(Photos(photos, train()), batch_size=10, collate_fn=collate))
        assert pending == [[True] * 10, [False] * 10]

    @pytest.mark.needs_core
    @pytest.mark.parametrize("what", ["pixels", "mistake", "jobs"])
    def test_results_that_cannot_be_made_in_the_batch(
        self, photos: list[str], fresh_ledger: None, monkeypatch: pytest.MonkeyPatch, what: str
    ) -> None:
        from fastpipe.pillow.lazy_source import LazySource

        def planted(*_: object, **__: object) -> Any:
            raise TypeError("planted")

        if what == "mistake":
            monkeypatch.setattr(LazySource, "run", planted)
            monkeypatch.setattr(LazySource, "fill", planted)
        else:  # the core refuses the file, and Pillow decodes it
            refused = core.Status.BAD_CODE
            monkeypatch.setattr(core.Pool, "run", lambda _, jobs, count: [refused] * count)
        if what == "pixels":
            monkeypatch.setattr("fastpipe.program.encoded_image.decode_by_core", lambda *_, **__: None)
        assert_as_plain(Photos(photos, train()), batch_size=10, collate_fn=stacked)
        left = {reason for site in LEDGER._sites.values() for reason in site.left}
        assert (left == {"fastpipe failed (TypeError: planted), and the plain way was taken"}) is (what == "mistake")

    @pytest.mark.needs_core
    def test_a_broken_file_fails_where_it_is_transformed(self, photos: list[str], tmp_path: Path) -> None:
        broken = tmp_path / "broken.jpg"
        broken.write_bytes(Path(photos[1]).read_bytes()[:-200])

        class Careful(Photos):
            def __getitem__(self, index: int) -> Any:
                try:
                    return super().__getitem__(index)
                except OSError:
                    return super().__getitem__(0)

        assert_as_plain(Careful([*photos[:7], str(broken)], train()), batch_size=4, collate_fn=stacked)

    def test_the_account_has_what_is_stacked(self, photos: list[str], installed: None, fresh_ledger: None) -> None:
        list(DataLoader(Photos(photos, train()), batch_size=10, collate_fn=stacked))
        (site,) = (one for one in LEDGER._sites.values() if one.kind == "transform")
        assert (site.images, site.timed) == (COUNT, COUNT - 1)

    @pytest.mark.needs_core
    def test_transforms_in_a_collate_function_are_planned(self, photos: list[str], installed: None) -> None:
        transform = train()

        def collate(files: list[str]) -> Any:
            pending = [fastpipe.is_pending(Image.open(file)) for file in files]
            images = torch.stack([transform(Image.open(file)) for file in files])
            return pending, images

        site = LEDGER.site("transform", "Compose(RandomResizedCrop, RandomHorizontalFlip, ToTensor, Normalize)")
        before = site.images
        for pending, images in DataLoader(photos, batch_size=10, collate_fn=collate):
            assert all(pending)
            assert images.shape == (10, 3, 128, 128)
        assert site.images == before + COUNT


def test_photos_are_of_several_sizes(photos: list[str]) -> None:
    assert len({Image.open(Path(name)).size for name in photos}) > 3

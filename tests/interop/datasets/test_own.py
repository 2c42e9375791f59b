"""`convert` of data sets, streams and transforms of one's own: their code runs as ever, with the hooks in force."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus
import numpy as np
import pytest
import torch
import torchvision_io_here
from PIL import Image
from plain_and_hooked import assert_same
from recipe_conformance import flat, seed_all, states, write_photos
from run_scripts import run_python
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset
from torchvision_here import module, torchvision

import fastpipe
from fastpipe.errors import DatasetError
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import are_in_force

pytestmark = pytest.mark.usefixtures("fresh_account")
T = torchvision.transforms
V2 = module("torchvision.transforms.v2")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(autouse=True)
def _images_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torchvision_io_here.why_not():
        from fastpipe.hooks.torchvision import tensor_files

        monkeypatch.setattr(tensor_files, "LEAST_BYTES", 0)
        monkeypatch.setattr(tensor_files, "LEAST_PIXELS", 0)


def crops() -> Any:
    return T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor()])


class Photos(Dataset[Any]):
    """The class that everybody writes."""

    def __init__(self, root: Path, transform: Any) -> None:
        self.paths = sorted(str(path) for path in root.rglob("*.*"))
        self.transform = transform
        self.asked = 0

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        self.asked += 1
        return self.transform(Image.open(self.paths[index]).convert("RGB")), index

    def __repr__(self) -> str:
        return f"Photos of {len(self)}"


class Views:
    """A class of one's own around transforms, as DINO's."""

    def __init__(self) -> None:
        self.whole, self.part = crops(), T.Compose([T.RandomResizedCrop(12), T.ToTensor()])

    def __call__(self, image: Any) -> Any:
        return [self.whole(image), self.whole(image), self.part(image)]


class Several(Photos):
    """Several samples at once, as torch's fetcher asks for them."""

    def __getitems__(self, indices: list[int]) -> Any:
        return [self[index] for index in indices]


class AsTensors(Photos):
    def __getitem__(self, index: int) -> Any:
        data = torch.frombuffer(bytearray(Path(self.paths[index]).read_bytes()), dtype=torch.uint8)
        image = torchvision.io.decode_image(data, "RGB")
        return {"image": image, "crop": self.transform(image), "number": index}


class AsArrays(Photos):
    def __getitem__(self, index: int) -> Any:
        cv2 = pytest.importorskip("cv2")
        image = cv2.cvtColor(cv2.imread(self.paths[index]), cv2.COLOR_BGR2RGB)
        return self.transform(image=image)["image"], index


class Stream(IterableDataset[Any]):
    def __init__(self, samples: Any) -> None:
        self.samples = samples

    def __iter__(self) -> Any:
        for index in range(len(self.samples)):
            yield self.samples[index]


class Around:
    """A wrapper that derives from nothing."""

    def __init__(self, samples: Any) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return *self.samples[index], index + 100


class Folder(torchvision.datasets.ImageFolder):
    def __getitem__(self, index: int) -> Any:
        return *super().__getitem__(index), self.samples[index][0]


def kinds() -> dict[str, Callable[[Path], Any]]:
    v2 = V2.Compose([V2.RandomResizedCrop(24, antialias=True), V2.ToDtype(torch.float32, scale=True)])
    return {
        "own": lambda root: Photos(root, crops()),
        "several": lambda root: Several(root, crops()),
        "views": lambda root: Photos(root, Views()),
        "tensors": lambda root: AsTensors(root, v2),
        "stream": lambda root: Stream(Photos(root, crops())),
        "wrapper": lambda root: Around(Subset(Photos(root, crops()), range(5))),
        "subset": lambda root: Subset(Photos(root, crops()), [3, 0, 3]),
        "both": lambda root: ConcatDataset([Photos(root, crops()), Subset(Several(root, Views()), [1])]),
        "folder": lambda root: Folder(str(root), crops()),
        "views of a folder": lambda root: torchvision.datasets.ImageFolder(str(root), Views()),
    }


_NO_IO = pytest.mark.skipif(bool(torchvision_io_here.why_not()), reason=torchvision_io_here.why_not())
NAMES = [pytest.param(name, marks=_NO_IO if name == "tensors" else ()) for name in kinds()]


def samples_of(dataset: Any) -> list[Any]:
    if isinstance(dataset, IterableDataset):
        return list(dataset)
    return [dataset[index] for index in range(len(dataset))]


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_the_same_and_so_is_the_object(photos: Path, name: str) -> None:
    theirs = kinds()[name](photos)
    seed_all(0)
    expected, end = samples_of(theirs), states()
    for ours in (fastpipe.convert(theirs), pickle.loads(pickle.dumps(fastpipe.convert(theirs)))):
        for made in (ours, copy.deepcopy(ours), copy.copy(ours)):
            assert isinstance(made, type(theirs))
            assert type(made).__qualname__ == type(theirs).__qualname__
            assert repr(made).split(" at ")[0] == repr(theirs).split(" at ")[0]
            seed_all(0)
            found = samples_of(made)
            assert states() == end
            assert_same(found, expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.needs_core
def test_transforms_are_planned(photos: Path, name: str) -> None:
    samples_of(fastpipe.convert(kinds()[name](photos)))
    planned = [site.images for site in LEDGER.total()[0] if site.name.startswith("Compose(")]
    assert sum(planned) >= 3
    assert all(not site.differed for site in LEDGER.total()[0])
    assert "Compose(" in str(fastpipe.report())


@_NO_IO
def test_tensors_are_ordinary_ones(photos: Path) -> None:
    sample = fastpipe.convert(kinds()["tensors"](photos))[0]
    assert type(sample["image"]) is type(sample["crop"]) is torch.Tensor
    assert not fastpipe.is_pending(sample["image"])


def test_albumentations_tensors_are_ordinary_ones(photos: Path) -> None:
    pytest.importorskip("cv2")
    A = pytest.importorskip("albumentations")
    pytorch = pytest.importorskip("albumentations.pytorch")

    def made(convert: Callable[[Any], Any]) -> list[Any]:
        chain = A.Compose([A.RandomCrop(24, 24), A.HorizontalFlip(), A.Normalize(), pytorch.ToTensorV2()], seed=3)
        return samples_of(convert(AsArrays(photos, chain)))

    found = made(fastpipe.convert)
    assert all(type(image) is torch.Tensor for image, _ in found)
    assert_same(found, made(lambda dataset: dataset))


@pytest.mark.needs_core
def test_nothing_is_hooked_elsewhere(photos: Path) -> None:
    """Images that the user opens and transforms elsewhere stay as they were, meanwhile and in other threads, too."""
    seen: list[Any] = []

    def look() -> None:
        image = Image.open(photos.glob("*/*.jpg").__next__())
        seen.append((not are_in_force(), fastpipe.is_pending(image.convert("RGB").resize((9, 9)))))

    class Looking(Photos):
        def __getitem__(self, index: int) -> Any:
            look()
            beside = threading.Thread(target=look)
            beside.start()
            beside.join()
            return super().__getitem__(index)

    dataset = fastpipe.convert(Looking(photos, crops()))
    look()
    dataset[0]
    look()
    iterator = iter(fastpipe.convert(Stream(Photos(photos, crops()))))
    next(iterator)
    look()
    assert seen[0][1] is False
    assert seen[1:] == [(False, True), (True, False), (True, False), (True, False)]
    with pytest.raises(IndexError):
        dataset[99]
    assert not are_in_force()


def test_install_and_uninstall_beside_it(photos: Path) -> None:
    theirs = Photos(photos, crops())
    ours = fastpipe.convert(theirs)
    seed_all(0)
    expected = samples_of(theirs)
    for number in range(3):
        if number == 1:
            fastpipe.install()
        seed_all(0)
        assert_same(samples_of(ours), expected)
        assert are_in_force() is (number == 1)
        fastpipe.uninstall()
        assert are_in_force()


def test_attributes_are_shared(photos: Path) -> None:
    theirs = Photos(photos, crops())
    ours = fastpipe.convert(theirs)
    theirs.transform = T.Compose([T.CenterCrop(5), T.PILToTensor()])
    assert ours[0][0].shape == (3, 5, 5)
    ours.paths = ours.paths[:2]
    assert len(theirs) == 2
    assert theirs.asked == 1
    copied = copy.copy(ours)
    copied.paths = []
    assert len(ours) == 2
    assert fastpipe.convert(ours) is ours


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *itertools.product(["own", "several", "stream"], [{}, {"num_workers": 2}]),
        ("several", {"num_workers": 1, "multiprocessing_context": "spawn"}),
    ],
    ids=str,
)
@pytest.mark.slow
def test_batches_of_a_loader_are_the_same(photos: Path, name: str, options: Any) -> None:
    dataset = kinds()[name](photos)
    shuffled = {} if name == "stream" else {"shuffle": True}
    theirs = DataLoader(dataset, batch_size=2, **shuffled, **options)
    ours = fastpipe.convert(theirs)
    assert type(ours) is fastpipe.DataLoader
    results = []
    for loader in (theirs, ours):
        seed_all(3)
        results.append(flat([list(loader), list(loader)]))
    assert results[0] == results[1]
    sites = [site for site in LEDGER.total()[0] if site.kind == "transform"]
    assert sum(site.images for site in sites) >= 2 * 5


def test_a_difference_is_told_and_left_alone(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = Photos(photos, crops())
    seed_all(0)
    expected, end = samples_of(dataset), states()
    ours = fastpipe.convert(dataset)
    monkeypatch.setattr("fastpipe.transforms.compose_plan.draw_and_run", lambda *given: torch.zeros(3, 24, 24))
    seed_all(0)
    with pytest.warns(fastpipe.errors.FastpipeWarning, match="gave other values than the library itself"):
        found = samples_of(ours)
    assert states() == end
    assert_same(found, expected)


def test_a_user_s_mistake_is_the_user_s(photos: Path) -> None:
    def wrong(image: Any) -> Any:
        raise KeyError("mine")

    dataset = fastpipe.convert(Photos(photos, T.Compose([T.CenterCrop(9), wrong])))
    with pytest.raises(KeyError, match="mine"):
        dataset[0]


class Slotted:
    __slots__ = ("__private", "root")

    def __init__(self, root: Path) -> None:
        self.root = root
        self.__private = crops()

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return self.__private(Image.open(sorted(self.root.rglob("*.jpg"))[index]))


class Register(type):
    """A metaclass, and a base that counts the classes derived from it."""

    def __call__(cls, *given: Any) -> Any:
        return super().__call__(*given)


class Registered(metaclass=Register):
    classes: list[str] = []  # noqa: RUF012 - a registry

    def __init_subclass__(cls, *, name: str) -> None:
        Registered.classes.append(name)


class Named(Registered, name="named"):
    def __getitem__(self, index: int) -> Any:
        return index


def test_classes_of_any_make(photos: Path) -> None:
    slotted = Slotted(photos)
    seed_all(0)
    expected = flat([slotted[0], slotted[1]])
    ours = fastpipe.convert(slotted)
    seed_all(0)
    assert flat([ours[0], ours[1]]) == expected
    assert fastpipe.convert(Named())[4] == 4
    assert not callable(fastpipe.convert(Named()))
    assert Registered.classes == ["named"]


class Rows(dict[Any, Any]):
    """A layout that Python makes by a method of its own."""


def test_what_can_t_be_derived_from_is_named() -> None:
    with pytest.raises(DatasetError, match=r"can't derive from .*Rows.*`fastpipe run`"):
        fastpipe.convert(Rows())


def test_a_transform_of_one_s_own_is_planned_within(photos: Path) -> None:
    views = Views()
    ours = fastpipe.convert(views)
    assert isinstance(ours, Views)
    image = Image.fromarray(corpus.photo(50, 61))
    seed_all(1)
    expected, end = flat(views(image)), states()
    seed_all(1)
    assert (flat(ours(image)), states()) == (expected, end)
    assert LEDGER.total()[0]
    assert fastpipe.convert(ours) is ours


ONE_SCRIPT = """
import sys
from pathlib import Path
import fastpipe
sys.path.insert(0, {tests!r})
from test_own import Photos, crops
from torch.utils.data import DataLoader

if __name__ == "__main__":
    dataset = fastpipe.convert(Photos(Path({photos!r}), crops()))
    loader = DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context="spawn")
    print(sum(len(images) for images, _ in loader))
    print(sum(site.images for site in fastpipe.report().sites if site.kind == "transform"))
"""


@pytest.mark.slow
def test_spawned_workers_of_torch_s_loader_account_for_their_images(photos: Path, tmp_path: Path) -> None:
    tests = str(Path(__file__).parent)
    (tmp_path / "script.py").write_text(ONE_SCRIPT.format(tests=tests, photos=str(photos)))
    made = run_python("script.py", cwd=tmp_path)
    count = sum(1 for _ in photos.rglob("*.*"))
    assert made.stdout.split() == [str(count)] * 2, made.stderr


def test_arrays_of_the_user_s_are_left_as_they_are(photos: Path) -> None:
    held = {"array": np.arange(3), "list": [torch.ones(2)]}

    class Held(Photos):
        def __getitem__(self, index: int) -> Any:
            super().__getitem__(index)
            return held

    assert fastpipe.convert(Held(photos, crops()))[0] is held

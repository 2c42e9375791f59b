"""A ``Compose`` that is changed, copied, derived from or shared by threads, and functions that others have replaced."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hooks.composed import RECIPES, opened, outcome, site_of
from PIL import Image
from torchvision_here import module

import fastpipe
from fastpipe.hooks import library_functions as originals

T, v2 = module("torchvision.transforms"), module("torchvision.transforms.v2")

pytestmark = pytest.mark.usefixtures("fresh_ledger")


class _OwnParameters(T.RandomCrop):  # type: ignore[misc, name-defined]
    calls = 0

    @classmethod
    def get_params(cls, img: Any, output_size: Any) -> Any:
        cls.calls += 1
        return 1, 2, *output_size


def test_a_method_of_a_class_of_the_user_s_runs_once_an_image(varied_photos: list[Path]) -> None:
    compose = T.Compose([T.Resize(40), _OwnParameters(24), T.ToTensor()])
    expected, _ = outcome(compose, opened(varied_photos[:2]))
    before = _OwnParameters.calls
    with fastpipe.install(check=99):
        made, _ = outcome(compose, opened(varied_photos[:2]))
    assert all(map(torch.equal, made, expected))
    assert _OwnParameters.calls - before == before


def _marked(plain: Callable[..., Any], calls: list[str], name: str) -> Callable[..., Any]:
    def replaced(*args: Any, **options: Any) -> Any:
        calls.append(name)
        return plain(*args, **options)

    return replaced


def test_composes_made_anew_for_each_image_look_at_the_libraries_functions_once(
    varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []
    functional = module("torchvision.transforms.functional")
    is_librarys = originals.is_librarys

    def made() -> Any:
        return T.Compose([T.CenterCrop(30), T.ToTensor()])(Image.open(varied_photos[0]))

    with fastpipe.install(check=0):
        expected = made()
        monkeypatch.setattr(originals, "is_librarys", lambda function: looked.append(function) or is_librarys(function))
        assert torch.equal(made(), expected)
        assert not looked
        calls: list[str] = []
        monkeypatch.setattr(functional, "to_tensor", _marked(functional.to_tensor, calls, "to_tensor"))
        assert torch.equal(made(), expected)
        assert looked
        assert calls == ["to_tensor"]


@pytest.mark.parametrize("is_late", [False, True])
def test_what_others_have_put_in_a_library_s_place_is_called(
    varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    functional = module("torchvision.transforms.functional")
    owners = [(T.RandomCrop, "forward"), (functional, "to_tensor"), (Image.Image, "crop"), (T.Compose, "__call__")]
    for owner, name in owners:
        calls: list[str] = []
        compose = T.Compose([T.RandomCrop(1), T.ToTensor()])
        with monkeypatch.context() as patched:
            if not is_late:
                patched.setattr(owner, name, _marked(getattr(owner, name), calls, name))
            with fastpipe.install(check=0):
                if is_late:
                    compose(Image.open(varied_photos[0]))
                    patched.setattr(owner, name, _marked(getattr(owner, name), calls, name))
                compose(Image.open(varied_photos[0]))
                patched.undo()
                assert calls == [name]
                compose(Image.open(varied_photos[0]))
                assert calls == [name]
    lefts = {reason for found in fastpipe.report().sites for reason in found.left}
    assert lefts == {
        "somebody has replaced a function that its library goes through",
        "somebody has replaced a function of Pillow's",  # which the file's opener finds
    }


@pytest.mark.parametrize(
    ("name", "transform", "count"),
    [("rand", T.RandomHorizontalFlip(), 1), ("randint", T.RandomCrop(1), 2), ("randperm", T.ColorJitter(0.3), 1)],
)
def test_a_replaced_function_of_torch_s_draws(
    varied_photos: list[Path], monkeypatch: pytest.MonkeyPatch, name: str, transform: Any, count: int
) -> None:
    compose = T.Compose([transform, T.ToTensor()])
    calls: list[str] = []
    with fastpipe.install(check=0):
        compose(Image.open(varied_photos[0]))
        monkeypatch.setattr(torch, name, _marked(getattr(torch, name), calls, name))
        compose(Image.open(varied_photos[0]))
    assert calls == [name] * count


def test_changes_of_a_compose_are_seen_at_once(varied_photos: list[Path]) -> None:
    image = Image.open(varied_photos[4]).convert("RGB")
    with fastpipe.install():
        transform = T.Compose([T.CenterCrop(20), T.ToTensor()])
        assert transform(image).shape == (3, 20, 20)
        transform.transforms[0].size = (10, 12)
        assert transform(image).shape == (3, 10, 12)
        transform.transforms[0] = T.Resize((5, 6))
        assert transform(image).shape == (3, 5, 6)
        transform.transforms.pop()
        assert transform(image).size == (6, 5)


def test_objects_are_copied_and_pickled_as_without(varied_photos: list[Path]) -> None:
    transform = RECIPES["training"]()
    before = pickle.dumps(transform), repr(transform), dict(vars(transform))
    with fastpipe.install():
        transform(Image.open(varied_photos[0]).convert("RGB"))
        assert (pickle.dumps(transform), repr(transform), dict(vars(transform))) == before
        assert b"fastpipe" not in pickle.dumps(transform)
        assert copy.deepcopy(transform).transforms[0].size == (24, 24)


def test_subclasses_made_before_and_after_are_planned_and_stay_what_they_are(varied_photos: list[Path]) -> None:
    class Before(T.Compose):  # type: ignore[misc, name-defined]
        pass

    with fastpipe.install():

        class After(T.Compose):  # type: ignore[misc, name-defined]
            def __call__(self, image: Any) -> Any:
                return super().__call__(image) + 1

        for kind, more in ((Before, 0), (After, 1)):
            transform = kind([T.CenterCrop(8), T.ToTensor()])
            assert isinstance(transform, T.Compose)
            made = transform(Image.open(varied_photos[4]).convert("RGB"))
            assert float(made.min()) >= more
            assert site_of(transform).images == 1


def test_threads_that_call_one_compose(varied_photos: list[Path]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    transform = T.Compose([T.Resize((20, 21)), T.ToTensor()])
    paths = varied_photos * 8
    plain = [transform(Image.open(path).convert("RGB")) for path in paths]
    with fastpipe.install(check=4), ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda path: transform(Image.open(path).convert("RGB")), paths))
    assert all(map(torch.equal, made, plain))


def test_pickles_are_read_without_fastpipe(tmp_path: Path, varied_photos: list[Path]) -> None:
    with fastpipe.install():
        transform = RECIPES["training"]()
        image = transform.transforms[0](Image.open(varied_photos[4]).convert("RGB"))
        (tmp_path / "kept.pickle").write_bytes(pickle.dumps((transform, image, transform(image))))
    code = (
        "import sys, pickle, torchvision_here\n"
        "for name in [*sys.modules]: name.startswith('fastpipe') and sys.modules.pop(name)\n"
        "pickle.load(open(sys.argv[1], 'rb'))\nprint('fastpipe' in sys.modules)"
    )
    tests = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", code, str(tmp_path / "kept.pickle")]
    assert subprocess.run(command, capture_output=True, text=True, cwd=tests, check=True).stdout == "False\n"

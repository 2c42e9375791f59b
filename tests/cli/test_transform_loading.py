"""``module:name`` and ``file.py:name`` on the command line: what is found, what is made of it, what is said if not."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from fastpipe import transforms as T
from fastpipe.errors import PlanError
from fastpipe.tools.import_object import find_object, imagenet_transform, load_transform

MODULE = '''
import functools
from fastpipe import transforms as T
import beside_{tag}

transform = T.Compose([T.CenterCrop(8)])

def build_train():
    return T.Compose([T.RandomCrop(4)])

def build(size=9):
    return T.CenterCrop(size)

def on_image(image):
    return image

def build_from(arguments):
    return T.Compose([])

def nothing():
    """Makes a transform and forgets it."""
    T.Compose([])

class Holder:
    transform = T.CenterCrop(5)

class Dataset:
    transform = T.CenterCrop(6)
    def __getitem__(self, index):
        return index

class Needy:
    def __init__(self, size):
        self.size = size

dataset = Dataset()
partly = functools.partial(build, size=3)
number = 7
'''


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> str:
    """A name that no other test's module has: modules stay loaded."""
    return re.sub(r"\W", "_", request.node.name)


@pytest.fixture
def project(tmp_path: Path, tag: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current folder that imports another one beside it."""
    (tmp_path / f"mine_{tag}.py").write_text(MODULE.replace("{tag}", tag))
    (tmp_path / f"beside_{tag}.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return f"mine_{tag}"


def test_without_a_place_it_is_imagenets_training() -> None:
    assert repr(load_transform(None)) == repr(imagenet_transform())
    assert "RandomResizedCrop(size=(224, 224)" in repr(imagenet_transform())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("transform", T.CenterCrop(8)),
        ("build_train", T.RandomCrop(4)),
        ("build", T.CenterCrop(9)),
        ("partly", T.CenterCrop(3)),
        ("Holder.transform", T.CenterCrop(5)),
        ("dataset", T.CenterCrop(6)),
        ("Dataset", T.CenterCrop(6)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_name_stands_for(project: str, name: str, expected: object) -> None:
    for place in (f"{project}:{name}", f"{project}.py:{name}", f"{Path.cwd() / project}.py:{name}"):
        found = load_transform(place)
        assert repr(expected) in repr(found)


def test_a_function_of_the_image_is_the_transform(project: str) -> None:
    assert load_transform(f"{project}:on_image")("an image") == "an image"


def test_a_class_of_transforms_is_made() -> None:
    assert isinstance(load_transform("fastpipe.transforms:RandomHorizontalFlip"), T.RandomHorizontalFlip)


def test_a_file_in_another_folder_imports_what_lies_beside_it(
    project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert repr(load_transform(f"../{project}.py:build")) == repr(T.CenterCrop(9))


def test_a_file_called_as_a_loaded_module_leaves_that_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("from fastpipe import transforms as T\ntransform = T.CenterCrop(2)\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    json = sys.modules["json"]
    assert repr(load_transform(f"{tmp_path / 'json.py'}:transform")) == repr(T.CenterCrop(2))
    assert sys.modules["json"] is json


def test_a_dataset_stays_one_where_any_object_will_do(project: str) -> None:
    assert type(find_object(f"{project}:dataset")).__name__ == "Dataset"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("train", "give MODULE:NAME or FILE.py:NAME"),
        ("train.py", "give MODULE:NAME or FILE.py:NAME"),
        ("some/folder:name", "give MODULE:NAME or FILE.py:NAME"),
        (":name", "give MODULE:NAME"),
        ("no_such_module:x", "no module is called 'no_such_module'"),
        ("no_such_file.py:x", "there is no file"),
        ("{project}:transfrom", "has no 'transfrom'; did you mean 'transform'?"),
        ("{project}:number", "a value of type int, no transform"),
        ("{project}:nothing", "the function nothing that returns None"),
        ("{project}:Needy", "a class that can't be made without arguments"),
    ],
)
def test_what_is_said_where_nothing_is_found(project: str, place: str, said: str) -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        load_transform(place.replace("{project}", project))


def test_a_script_that_ends_when_imported_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "a_script_that_ends.py").write_text("raise SystemExit(2)\n")
    with pytest.raises(PlanError, match="ends the program: put what a script does behind if __name__"):
        find_object(f"{tmp_path / 'a_script_that_ends.py'}:transform")
    assert "a_script_that_ends" not in sys.modules


def test_albumentations_own_transforms_are_sent_to_the_wrapper() -> None:
    pytest.importorskip("albumentations")
    with pytest.raises(PlanError, match=r"fastpipe\.transforms\.Albumentations"):
        load_transform("albumentations:HorizontalFlip")

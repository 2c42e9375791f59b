"""Replaced attributes: what they do while they are replaced, and that nothing of them is left."""

from __future__ import annotations

import inspect
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

import fastpipe
from fastpipe.hooks.faster_function import FasterFunction
from fastpipe.hooks.imports import ImportHook
from fastpipe.hooks.ledger import LEDGER
from fastpipe.hooks.patches import Function, Patches
from fastpipe.plain_way import is_plain, own_function, plainly


@pytest.fixture(autouse=True)
def _without_hooks_in_place() -> None:
    fastpipe.uninstall()  # which other tests may have left, in force for objects alone


class Base:
    def method(self, x: int = 1) -> str:
        """Says it."""
        return f"plain {x}"


class Derived(Base):
    pass


def shouting(plain: Function) -> Function:
    return lambda *args, **kwargs: plain(*args, **kwargs).upper()


def attributes(*owners: Any) -> list[dict[str, Any]]:
    return [dict(vars(owner)) for owner in owners]


def test_a_method_is_replaced_and_given_back() -> None:
    before = attributes(Base, Derived)
    patches = Patches()
    patches.wrap(Base, "method", shouting)
    assert (Base().method(2), Derived().method(3)) == ("PLAIN 2", "PLAIN 3")
    assert Base.method.__doc__ == "Says it."
    assert list(inspect.signature(Base.method).parameters) == ["self", "x"]
    patches.undo()
    assert attributes(Base, Derived) == before


def test_an_inherited_attribute_is_inherited_again() -> None:
    before = attributes(Base, Derived)
    patches = Patches()
    patches.wrap(Derived, "method", shouting)
    assert (Base().method(2), Derived().method(3)) == ("plain 2", "PLAIN 3")
    patches.undo()
    assert attributes(Base, Derived) == before


def test_who_holds_the_replacement_gets_the_plain_function_afterwards() -> None:
    patches = Patches()
    patches.wrap(Base, "method", shouting)
    held = Base.method
    patches.undo()
    assert held(Base(), 4) == "plain 4"


def test_a_patch_of_others_on_top_stays_and_does_what_it_did() -> None:
    module: Any = types.ModuleType("library")
    module.function = lambda: "plain"
    patches = Patches()
    patches.wrap(module, "function", shouting)
    ours = module.function
    module.function = lambda: f"<{ours()}>"
    assert module.function() == "<PLAIN>"
    patches.undo()
    assert module.function() == "<plain>"


def test_a_thread_is_plain_within_plainly_alone() -> None:
    patches = Patches()
    patches.wrap(Base, "method", shouting)
    seen: list[str] = []
    with plainly():
        assert is_plain()
        assert Base().method() == "plain 1"
        other = threading.Thread(target=lambda: seen.append(Base().method()))
        other.start()
        other.join()
        with plainly():
            pass
        assert is_plain()
    assert (seen, Base().method()) == (["PLAIN 1"], "PLAIN 1")
    patches.undo()


def test_a_tables_entries_are_put_back_in_their_places() -> None:
    table = {"first": 1, "second": 2, "others": 3}
    patches = Patches()
    for name in ("first", "new", "others"):
        patches.put_item(table, name, 10)
    table["others"] = 4  # by somebody else, meanwhile
    assert table == {"first": 10, "second": 2, "others": 4, "new": 10}
    patches.undo()
    assert [*table.items()] == [("first", 1), ("second", 2), ("others", 4)]


class Failing(FasterFunction):
    def make(self, number: int) -> object:
        raise RuntimeError("planted")


def test_an_error_is_counted_where_the_library_gives_a_value(fresh_ledger: None) -> None:
    function = Failing("inverse", lambda number: 1 / number)
    with pytest.raises(ZeroDivisionError):
        function(0)
    assert not function.site.left
    assert function(2) == 0.5
    assert function.site.left == {"fastpipe failed (RuntimeError: planted), and the plain way was taken": 1}


class Bound:
    of_class = classmethod(len)
    of_nobody = staticmethod(len)


def test_a_librarys_own_function_is_found_below_replacements() -> None:
    plain = inspect.getsource
    once, twice = Patches(), Patches()
    for patches in (once, twice):
        patches.wrap(inspect, "getsource", shouting)
    try:
        assert own_function(inspect.getsource) is own_function(plain) is plain
    finally:
        twice.undo()
        once.undo()
    assert own_function(vars(Bound)["of_class"]) is own_function(vars(Bound)["of_nobody"]) is len
    assert own_function(fastpipe.install) is fastpipe.install  # replaces nothing


def test_what_was_imported_by_name_before_is_found() -> None:
    library, user = types.ModuleType("library"), types.ModuleType("user_of_it")
    library.function = user.renamed = lambda: "plain"  # type: ignore[attr-defined]
    sys.modules["user_of_it"] = user
    try:
        patches = Patches()
        patches.wrap(library, "function", shouting)
        assert patches.held_elsewhere() == ["user_of_it.renamed"]
    finally:
        del sys.modules["user_of_it"]


@pytest.fixture
def package(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = "hooked_package"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("from hooked_package.part import value\n")
    (tmp_path / name / "part.py").write_text("import sys\nvalue = 'as it was'\nspec = __spec__\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


def test_a_module_is_hooked_when_it_has_been_imported_and_shows_no_trace(package: str) -> None:
    seen: list[str] = []
    hook = ImportHook({f"{package}.part": lambda module: seen.append(module.value)})
    hook.start()
    try:
        assert seen == []
        part = __import__(f"{package}.part", fromlist=["part"])
        assert seen == ["as it was"]
        assert type(part.__loader__).__name__ == "SourceFileLoader"
        assert part.__spec__ is part.spec
        assert part.__spec__.loader is part.__loader__
        assert inspect.getsource(part).startswith("import sys")
    finally:
        hook.stop()
    assert hook not in sys.meta_path


def test_a_module_that_is_there_is_hooked_at_once(package: str) -> None:
    __import__(f"{package}.part")
    seen: list[str] = []
    hook = ImportHook({f"{package}.part": lambda module: seen.append(module.value), "not.there": lambda _: None})
    hook.start()
    hook.stop()
    assert seen == ["as it was"]


# -- libraries of other versions


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, fresh_ledger: None) -> types.ModuleType:
    """A library ``alike 1.5`` with a function and a class, and an account without notes."""
    module = types.ModuleType("alike")
    exec("def shout(text, mark='!'):\n    return text + mark", vars(module))
    exec("class Image:\n    def turn(self, angle):\n        return angle", vars(module))
    module.__version__ = "1.5"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "alike", module)
    return module


def test_a_missing_name_is_noted_and_the_others_are_replaced(library: types.ModuleType) -> None:
    del library.shout
    patches = Patches()
    patches.hook(library, "shout", shouting)
    patches.hook(library, "Image.flip", shouting)
    patches.hook(library, "Photo.turn", shouting)
    patches.hook(library, "Image.turn", lambda plain: lambda self, angle: plain(self, angle) + 1)
    assert library.Image().turn(3) == 4
    starts = ["alike 1.5: alike.shout isn't", "alike 1.5: alike.Image.flip isn't", "alike 1.5: alike.Photo.turn isn't"]
    assert len(LEDGER.notes) == 3
    assert all(map(str.startswith, LEDGER.notes, starts))


@pytest.mark.parametrize(
    "replacement",
    [
        lambda text: text,
        lambda text, mark, more=0: text,
        lambda words, mark="!": words,
        lambda text, *others: text,
        lambda text, **named: text,
        lambda mark="!", text="": text,
    ],
)
def test_a_replacement_with_other_parameters_is_left_out(library: types.ModuleType, replacement: Function) -> None:
    plain = library.shout
    Patches().hook(library, "shout", lambda _: replacement)
    assert library.shout is plain
    assert [*LEDGER.notes] == ["alike 1.5: alike.shout isn't accelerated (shout(text, mark='!') has other parameters)"]


@pytest.mark.parametrize(
    "replacement",
    [
        lambda text, mark="?": "ours",
        lambda text, *others, **named: "ours",
        lambda *args, **kwargs: "ours",
        lambda text, *, mark="?", **named: "ours",
    ],
)
def test_a_replacement_with_the_same_parameters_is_taken(library: types.ModuleType, replacement: Function) -> None:
    Patches().hook(library, "shout", lambda _: replacement)
    assert library.shout("a") == "ours"
    assert not LEDGER.notes


def test_the_parameters_of_a_faster_function_are_those_that_it_names(
    library: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LEDGER, "check", 0)

    class Known(FasterFunction):
        def takes(self, text: str, mark: str = "!") -> bool:
            return True

        def make(self, *args: object) -> int:
            return 5

    class Unknown(FasterFunction):
        def make(self, text: str) -> int:
            return 5

    Patches().hook(library, "shout", lambda plain: Unknown("shout", plain))
    assert library.shout("a") == "a!"
    assert len(LEDGER.notes) == 1
    Patches().hook(library, "shout", lambda plain: Known("shout", plain))
    assert library.shout("a") == 5
    assert len(LEDGER.notes) == 1


def test_a_piece_that_fails_is_undone_as_a_whole(library: types.ModuleType) -> None:
    before, table = attributes(library, library.Image), {"a": 1}
    patches = Patches()
    patches.put_item(table, "b", 2)
    with patches.piece("alike", "all of it"):
        patches.wrap(library, "shout", shouting)
        patches.put(library.Image, "turn", None)
        patches.put_item(table, "a", 3)
        raise ValueError("who knows")
    assert attributes(library, library.Image) == before
    assert table == {"a": 1, "b": 2}
    assert [*LEDGER.notes] == ["alike 1.5: all of it isn't accelerated (ValueError: who knows)"]
    patches.undo()
    assert table == {"a": 1}


@pytest.mark.parametrize("error", [MemoryError, RecursionError, KeyboardInterrupt])
def test_what_is_no_mistake_leaves_a_piece(library: types.ModuleType, error: type[BaseException]) -> None:
    with pytest.raises(error), Patches().piece("alike", "all of it"):
        raise error
    assert not LEDGER.notes


def test_a_change_that_fails_is_tried_once(library: types.ModuleType) -> None:
    calls = []

    def change(patches: Patches) -> None:
        calls.append(patches)
        raise ImportError("no such module")

    patches = Patches()
    for _ in range(3):
        patches.once(change, "alike", "all of it")
    assert calls == [patches]
    assert [*LEDGER.notes] == ["alike 1.5: all of it isn't accelerated (ImportError: no such module)"]


def test_a_hook_of_ours_that_fails_leaves_the_librarys_import_alone(
    library: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastpipe.hooks.installation.HOOKS", {"alike": "no_such_hook"})
    with fastpipe.install():
        assert library.shout("a") == "a!"
    assert [note for note in LEDGER.notes if "alike" in note] == [
        "alike 1.5: alike isn't accelerated (ModuleNotFoundError: No module named 'fastpipe.hooks.no_such_hook')"
    ]

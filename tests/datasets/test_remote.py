"""Stores by fsspec: memory, a real S3-compatible server, real HTTP servers, and such as fail, lie and cut off."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import corpus
import numpy as np
import pytest
import torch

import fastpipe
from fastpipe import readers, sources
from fastpipe import transforms as T
from fastpipe.cli import main
from fastpipe.datasets import IMG_EXTENSIONS, ImageIndex
from fastpipe.errors import DatasetError, StoreError
from fastpipe.index.cache import load_or_build
from fastpipe.index.remote_scan import RemoteFolderSource
from fastpipe.sources import Entry, RemoteSource, _retry

fsspec = pytest.importorskip("fsspec", reason="stores are read by fsspec")

TRAIN = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor()])
FILES = {name: data for name, data in corpus.odd_folder().items() if not name.startswith("ants-b/")}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_retry, "_FIRST_PAUSE_S", 0.0)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos") / "train"
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


@pytest.fixture(scope="module")
def memory() -> Iterator[str]:
    system = fsspec.filesystem("memory")
    system.pipe({f"/photos/train/{name}": data for name, data in FILES.items()})
    yield "memory://photos/train"
    system.rm("/photos", recursive=True)


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """Options for a server that speaks S3, with a bucket ``photos``."""
    pytest.importorskip("s3fs", reason="s3:// needs s3fs")
    server = pytest.importorskip("moto.server", reason="the server is moto's").ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}", "key": "none", "secret": "none"}
    system = fsspec.filesystem("s3", **options)
    system.mkdir("photos")
    system.pipe({f"photos/train/{name}": data for name, data in FILES.items()})
    yield options
    server.stop()


class Web(ThreadingHTTPServer):
    """Serves `FILES`; `spoil` says what goes wrong with a path, and how often."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.released = threading.Event()
        self.spoil: dict[str, list[str]] = {}
        self.asked: list[str] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/train"


class _Handler(BaseHTTPRequestHandler):
    server: Web
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urllib.parse.unquote(self.path).removeprefix("/train").strip("/")
        self.server.asked.append(path)
        wrong = self.server.spoil.get(path, [])
        how = (wrong.pop(0) if len(wrong) > 1 else wrong[0]) if wrong else ""
        if path not in FILES:
            self._folder(path, bool(how))
            return
        data, status = FILES[path], 200
        limits = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if limits and how != "no ranges":
            start, stop = int(limits[1]), int(limits[2]) + 1 if limits[2] else len(data)
            data, status = data[start:stop], 206 if start < len(data) else 416
        if how.isdigit():
            data, status = b"", int(how)
        if how == "lie":
            data = data[: len(data) // 2]
        if how == "slow":
            self.server.released.wait(5)
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # nobody waited
            self.wfile.write(data[: len(data) // 2] if how == "cut" else data)
        self.close_connection = how == "cut"

    def _folder(self, path: str, fails: bool) -> None:
        start = f"{path}/" if path else ""
        names = {name[len(start) :] for name in FILES if name.startswith(start)}
        names = {name.partition("/")[0] + ("/" if "/" in name else "") for name in names}
        links = "".join(f'<a href="{urllib.parse.quote(name)}">{name}</a>' for name in names)
        page = f'<a href="?C=N;O=D">Name</a><a href="../">up</a>{links}'.encode()
        self.send_response(500 if fails else 200 if names else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[Web]:
    pytest.importorskip("aiohttp", reason="http:// needs aiohttp")
    with Web() as server:
        yield server
        server.released.set()
        server.shutdown()


@pytest.fixture
def web(server: Web) -> Web:
    server.spoil.clear()
    server.asked.clear()
    return server


def same(stored: fastpipe.ImageFolder, root: Path) -> None:
    folder = fastpipe.ImageFolder(root, TRAIN, seed=0)
    assert stored.classes == folder.classes == ["ants", "bees"]
    assert [path.key for path, _ in stored.samples] == [
        Path(path).relative_to(root).as_posix() for path, _ in folder.samples
    ]
    assert list(stored.targets) == list(folder.targets)
    for threads in (0, 1):
        for (images, targets), (expected, wanted) in zip(
            *(fastpipe.DataLoader(one, batch_size=3, threads=threads) for one in (stored, folder)), strict=True
        ):
            assert torch.equal(images, expected)
            assert torch.equal(targets, wanted)


def test_memory(memory: str, root: Path, tmp_path: Path) -> None:
    same(fastpipe.ImageFolder(memory, TRAIN, seed=0), root)
    cache = fastpipe.Cache(tmp_path / "cache")
    cached = fastpipe.ImageFolder(memory, TRAIN, seed=0, cache=cache)
    same(cached, root)
    same(pickle.loads(pickle.dumps(cached)), root)
    assert cache.statistics().files == 5
    assert fastpipe.ImageList((["ants/1.jpg"], [3]), TRAIN, root=memory, seed=0)[0][1] == 3


def test_s3(s3: dict[str, Any], root: Path, tmp_path: Path) -> None:
    source = RemoteSource("s3://photos/train", **s3)
    entries = {entry.key: entry for entry in source.list()}
    assert {key: entry.size for key, entry in entries.items()} == {key: len(data) for key, data in FILES.items()}
    assert all(re.fullmatch("[0-9a-f]{32}", entry.etag) for entry in entries.values())
    assert source.entry("ants/1.jpg") == entries["ants/1.jpg"]
    same(fastpipe.ImageFolder(source, TRAIN, seed=0), root)
    assert source.read("ants/1.jpg", 5, 10) == FILES["ants/1.jpg"][5:15]
    assert source.read("ants/1.jpg", 10**6, 10) == b""
    assert source.read("ants/1.jpg", 5) == FILES["ants/1.jpg"][5:]
    with pytest.raises(FileNotFoundError, match="the store has no such file"):
        source.read("ants/none.jpg")
    with pytest.raises(FileNotFoundError):
        list(RemoteSource("s3://nobucket/train", **s3).list())


def test_odd_names(tmp_path: Path) -> None:
    names = ["cat/1 2.jpg", "cat/what?.jpg", "dog/100%25.jpg", "dog/#[x]é.jpg"]
    system = fsspec.filesystem("memory")
    system.pipe({f"/odd/{name}": corpus.jpeg(8, 9, seed=number) for number, name in enumerate(names)})
    try:
        stored = fastpipe.ImageFolder("memory://odd", TRAIN, index=None)
        assert sorted(path.removeprefix("memory://odd/") for path, _ in stored.samples) == sorted(names)
        assert len([*stored]) == 4
    finally:
        system.rm("/odd", recursive=True)


def test_each_keeps_the_promises_of_a_source(memory: str, s3: dict[str, Any], web: Web, tmp_path: Path) -> None:
    sources.check_source(RemoteSource(memory))
    sources.check_source(RemoteSource("s3://photos/train", **s3), files=3)
    sources.check_source(RemoteSource(web.url), files=3)
    sources.check_source(fastpipe.Cache(tmp_path).over(RemoteSource(memory)))


def test_s3_in_workers(s3: dict[str, Any], root: Path, tmp_path: Path) -> None:
    cache = fastpipe.Cache(tmp_path / "cache")
    stored = fastpipe.ImageFolder(RemoteSource("s3://photos/train", **s3), TRAIN, seed=0, cache=cache)
    assert stored[0][1] == 0  # a connection that workers must not use
    folder = fastpipe.ImageFolder(root, TRAIN, seed=0)
    for sent in (stored, pickle.loads(pickle.dumps(stored))):
        loaders = (fastpipe.DataLoader(one, batch_size=2, num_workers=int(one is sent)) for one in (sent, folder))
        for (images, _), (expected, _) in zip(*loaders, strict=True):
            assert torch.equal(images, expected)
    assert cache.statistics().files == 5


def test_an_index_of_a_bucket_knows_what_changed(s3: dict[str, Any], tmp_path: Path) -> None:
    system = fsspec.filesystem("s3", **s3)
    system.pipe({f"photos/other/{name}": data for name, data in FILES.items()})
    source = RemoteSource("s3://photos/other", **s3)
    first, second = (ImageIndex.from_folder(source, location=tmp_path / "index") for _ in range(2))
    assert first.generation == second.generation
    system.pipe("photos/other/ants/1.jpg", FILES["ants/2.JPG"])
    third = ImageIndex.from_folder(source, location=tmp_path / "index")
    assert (first.table.versions != third.table.versions).tolist() == [True, False, False, False, False]


def test_http(web: Web, root: Path, tmp_path: Path) -> None:
    cache = fastpipe.Cache(tmp_path / "cache")
    same(fastpipe.ImageFolder(web.url, TRAIN, seed=0, cache=cache), root)
    web.asked.clear()
    same(fastpipe.ImageFolder(f"{web.url}/", TRAIN, seed=0, cache=cache), root)
    assert sorted(web.asked) == ["", "ants", "ants/deep", "bees"]
    secret = RemoteSource(web.url.replace("//", "//user:secret@"))
    assert secret.name == web.url


@pytest.mark.parametrize("spoiled", ["500", "503", "429", "cut"])
def test_what_fails_for_the_moment_is_tried_again(web: Web, spoiled: str) -> None:
    source = RemoteSource(web.url)
    web.spoil["ants/1.jpg"] = [spoiled, spoiled, ""]
    assert source.read("ants/1.jpg") == FILES["ants/1.jpg"]
    assert web.asked.count("ants/1.jpg") == 3
    web.spoil["ants/1.jpg"] = [spoiled]
    web.asked.clear()
    with pytest.raises(
        StoreError, match=r"train/ants/1\.jpg: no answer, though it was asked 8 times in .* Is the store"
    ):
        source.read("ants/1.jpg")
    assert web.asked.count("ants/1.jpg") == 8


def test_what_fails_for_good_is_not(web: Web) -> None:
    source = RemoteSource(web.url)
    for status, error, words in (
        ("404", FileNotFoundError, "the store has no such file"),
        ("403", PermissionError, "refuses to show it .*check your credentials"),
        ("400", StoreError, "train/ants/1.jpg: the store refuses: ClientResponseError: 400"),
    ):
        web.asked.clear()
        web.spoil["ants/1.jpg"] = [status]
        with pytest.raises(error, match=words):
            source.read("ants/1.jpg")
        assert web.asked.count("ants/1.jpg") == 1


def test_a_server_that_lies_about_a_length(web: Web) -> None:
    source = RemoteSource(web.url)
    file = source.file(Entry("ants/1.jpg", len(FILES["ants/1.jpg"]), "etag"))
    web.spoil["ants/1.jpg"] = ["lie", ""]
    assert source.read_file(file) == FILES["ants/1.jpg"]
    web.spoil["ants/1.jpg"] = ["lie"]
    with pytest.raises(
        StoreError, match=r"1721 bytes were expected and 860 came: it was cut off on the way, or has chan"
    ):
        source.read_file(file)
    web.spoil.clear()
    with pytest.raises(StoreError, match="1000 bytes were expected and 1001 came"):  # it has grown
        source.read_file(source.file(Entry("ants/1.jpg", 1000, "etag")))


def test_a_server_without_ranges(web: Web, root: Path) -> None:
    source = RemoteSource(web.url)
    for name in FILES:
        web.spoil[name] = ["no ranges"]
    same(fastpipe.ImageFolder(source, TRAIN, seed=0), root)
    with pytest.raises(
        StoreError, match="10 bytes from 5 on were asked for, and 1721 came: the server doesn't give parts"
    ):
        source.read("ants/1.jpg", 5, 10)


def test_a_server_that_hangs(web: Web) -> None:
    web.spoil["ants/1.jpg"] = ["slow"]
    with pytest.raises(StoreError, match=r"no answer, though it was asked 2 times in .*FSTimeoutError"):
        RemoteSource(web.url, tries=2, timeout_s=0.1).read("ants/1.jpg")


def test_an_interrupted_listing_goes_on(web: Web, root: Path) -> None:
    source = RemoteSource(web.url, tries=1, concurrency=1)
    web.spoil["bees"] = ["500"]
    with pytest.raises(StoreError, match="train/bees: no answer"):
        fastpipe.ImageFolder(source)
    done = {*web.asked} - {"bees"}
    assert "" in done
    web.spoil.clear()
    web.asked.clear()
    same(fastpipe.ImageFolder(source, TRAIN, seed=0), root)
    assert {path for path in web.asked if path not in FILES} == {"", "ants", "ants/deep", "bees"} - done
    web.asked.clear()
    fastpipe.ImageFolder(source)  # it came to its end, so that the next one begins at the beginning
    assert {path for path in web.asked if path not in FILES} == {"", "ants", "ants/deep", "bees"}


def test_a_store_that_another_process_listed_meanwhile_is_not_listed_again(root: Path, tmp_path: Path) -> None:
    first = ImageIndex.from_folder(f"file://{root}", location=tmp_path / "index")
    assert ImageIndex.from_folder(f"file://{root}", location=tmp_path / "index").generation == first.generation
    store = RemoteSource(f"file://{root}")
    waited = RemoteFolderSource(root=store.name, extensions=IMG_EXTENSIONS, bytes_from=store, asked=0)
    with mock.patch.object(RemoteSource, "list_folder", side_effect=AssertionError):
        assert load_or_build(waited, tmp_path / "index").origin == "opened"


def test_lists_of_paths_in_a_store(memory: str, root: Path, tmp_path: Path) -> None:
    cache = fastpipe.Cache(tmp_path / "cache")
    stored = fastpipe.ImageFolder(memory, TRAIN, seed=0)
    paths, labels = zip(*stored.samples[1:4], strict=True)
    listed = fastpipe.ImageList((paths, labels), TRAIN, seed=0, cache=cache)
    assert [path for path, _ in listed.samples] == [*paths]
    assert torch.equal(fastpipe.ImageList((paths, labels), TRAIN, seed=0)[2][0], listed[2][0])
    listed.samples = listed.samples[:2]  # a list now
    assert [path.length for path, _ in listed.subset([1, 0]).samples] == [paths[1].length, paths[0].length]
    assert cache.statistics().files == 1
    with pytest.raises(DatasetError, match="a list holds files of one store"):
        fastpipe.ImageList(([*paths, fastpipe.ImageFolder(f"file://{root}").samples[0][0]], [0] * 4))
    with pytest.raises(DatasetError, match="cache= keeps files of a store, and None is none"):
        fastpipe.ImageList((["a.jpg"], [0]), cache=cache)


def test_the_tools_take_a_url(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"file://{root}"
    for arguments, words in (
        (["check", url, "--jobs", "1"], "5 files"),
        (["index", url, "--stats"], "5 files in 2 classes of file://"),
        (["explain", url], "the whole transform is planned"),
    ):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
        assert words in capsys.readouterr().out


@pytest.mark.parametrize("cached", [False, True])
def test_arrays_in_a_store(tmp_path: Path, cached: bool) -> None:
    for number in range(6):
        path = tmp_path / "fields" / str(number % 2) / f"{number}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.random.default_rng(number).normal(size=(2, 12, 10)).astype(">f4"))
    system = fsspec.filesystem("memory")
    system.put(str(tmp_path / "fields"), "/fields", recursive=True)
    cache = fastpipe.Cache(tmp_path / "cache") if cached else None
    for options in ({}, {"crop": (5, 4)}):
        stored = fastpipe.ArrayFolder("memory://fields", seed=0, cache=cache, **options)
        local = fastpipe.ArrayFolder(tmp_path / "fields", seed=0, **options)
        assert torch.equal(stored[3][0], local[3][0])
        for (arrays, targets), (expected, wanted) in zip(
            *(fastpipe.DataLoader(one, batch_size=4, threads=1) for one in (stored, local)), strict=True
        ):
            assert torch.equal(arrays, expected)
            assert torch.equal(targets, wanted)
    if cache is not None:
        assert cache.statistics().files == 6
        places = cache.fetch([path for path, _ in stored.samples])
        cache.evict([path for path, _ in stored.samples])  # between finding and reading it
        assert not os.path.exists(places[0].container)
        data = readers.read_copy(stored.samples[0][0], places[0])
        assert data == (tmp_path / "fields" / "0" / "0.npy").read_bytes()
    system.rm("/fields", recursive=True)


def test_batches_that_are_lists_are_fetched_together(web: Web) -> None:
    dataset = fastpipe.ImageFolder(RemoteSource(web.url), T.RandomCrop(20), seed=0)
    calls: list[int] = []
    fetch = dataset.source.fetch
    dataset.source.fetch = lambda files: calls.append(len(files)) or fetch(files)
    web.asked.clear()
    assert [image.size for image, _ in dataset.__getitems__([0, 1, 2, 3])] == [(20, 20)] * 4
    assert calls == [4]
    assert len(web.asked) == 4


def test_what_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DatasetError, match="none-such://x can't be opened: Protocol not known"):
        RemoteSource("none-such://x")
    for name, value in (("tries", 0), ("concurrency", "8"), ("timeout_s", 0), ("ranges_from", -1)):
        with pytest.raises(DatasetError, match=f"{name}={value!r}: give "):
            RemoteSource("memory://x", **{name: value})
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(DatasetError, match=r"s3://bucket/train: .* pip install fsspec"):
        fastpipe.ImageFolder("s3://bucket/train")


def test_attempts_are_counted_once() -> None:
    """botocore would make five of each, and wait for a minute in between where there is no network."""
    pytest.importorskip("s3fs", reason="s3:// needs s3fs")
    count = 0

    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal count
            count += 1
            self.send_error(500)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        source = RemoteSource(
            "s3://photos/train", tries=3, endpoint_url=f"http://127.0.0.1:{server.server_port}", key="a", secret="b"
        )
        with pytest.raises(StoreError, match="no answer, though it was asked 3 times"):
            fastpipe.ImageFolder(source, index=None)
        server.shutdown()
    assert count == 3

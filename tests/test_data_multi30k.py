"""data.multi30k: the real files where HEED_DATA names them, and all that can go wrong on the way to them.

The network is a server on this machine, which cuts the transfer, sends an error page, sends other bytes, or
is not there at all. What it serves are three captions of our own, with their own checksums.
"""

import gzip
import hashlib
import importlib
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from heed.data import Pair, multi30k

module = importlib.import_module("heed.data.multi30k")
REAL_DATA = os.environ.get("HEED_DATA")

CAPTIONS = {
    "de": "Ein Hund läuft.\nZwei Kinder\u2028spielen 😀 .\n日本の家\u00a0!\n",
    "en": "A dog runs.\nTwo children play 😀 .\nA Japanese house !\n",
}
NAMES = {language: f"train.{language}.gz" for language in CAPTIONS}
FILES = {NAMES[language]: gzip.compress(text.encode(), mtime=0) for language, text in CAPTIONS.items()}
SUMS = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
PAIRS = [
    Pair("Ein Hund läuft.", "A dog runs.", "de"),
    Pair("Zwei Kinder\u2028spielen 😀 .", "Two children play 😀 .", "de"),
    Pair("日本の家\u00a0!", "A Japanese house !", "de"),
]
PAGE = b"<!DOCTYPE html><title>Sign in to the network</title>"


class Server(BaseHTTPRequestHandler):
    """The first part of the path says how to behave, the last is the file's name."""

    def do_GET(self):
        how, data = self.path.split("/")[1], FILES[self.path.split("/")[-1]]
        status = {"missing": 404, "busy": 503}.get(how, 200)
        body = {"cut": data[:-7], "cut-silently": data[:-7], "page": PAGE, "other": data[:-1] + b"!"}.get(
            how, data
        )
        self.send_response(status)
        if how != "cut-silently":
            self.send_header("Content-Length", str(len(data if how == "cut" else body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Three captions instead of 29,000, an empty cache, and no address at all unless a test gives one."""
    monkeypatch.delenv("HEED_DATA", raising=False)
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "cache"))
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "127.0.0.1")
    monkeypatch.setattr(module, "SHA256", SUMS)
    monkeypatch.setattr(module, "ADDRESSES", ())
    monkeypatch.setattr(module, "TIMEOUT", 5)


@pytest.fixture
def addresses(monkeypatch, server):
    def use(*ways):
        monkeypatch.setattr(module, "ADDRESSES", tuple(f"{server}/{how}/{{name}}" for how in ways))

    return use


def kept(tmp_path):
    return sorted(path.name for path in tmp_path.rglob("*") if path.is_file())


# --- the real files ----------------------------------------------------------------------------------------


@pytest.mark.skipif(
    not REAL_DATA, reason="HEED_DATA names no folder with Multi30k: the real files are not tested"
)
@pytest.mark.parametrize(
    ("split", "n_pairs", "first", "last"),
    [
        (
            "train",
            29000,
            ("Zwei junge weiße Männer", "Two young, White males"),
            ("Ein Mann in Shorts", "A man in"),
        ),
        (
            "val",
            1014,
            ("Eine Gruppe von Männern", "A group of men"),
            ("Zwei Frauen in Rot", "Two women wearing"),
        ),
        ("test", 1000, ("Ein Mann mit einem orange", "A man in an orange"), ("Ein Mädchen an", "A girl at")),
    ],
)
def test_the_real_corpus(monkeypatch, split, n_pairs, first, last):
    monkeypatch.undo()
    monkeypatch.setenv("HEED_DATA", REAL_DATA)
    pairs = multi30k(split)
    assert len(pairs) == n_pairs and {pair.language for pair in pairs} == {"de"}
    for pair, (source, target) in ((pairs[0], first), (pairs[-1], last)):
        assert pair.source.startswith(source) and pair.target.startswith(target)
    assert all(pair.source and pair.target and "\n" not in pair.source + pair.target for pair in pairs)


# --- it works ----------------------------------------------------------------------------------------------


def test_fetched_once_and_kept(addresses, tmp_path, capsys):
    addresses("fine")
    assert multi30k("train") == PAIRS
    assert kept(tmp_path) == ["train.de.gz", "train.en.gz"]
    assert "research and education only" in capsys.readouterr().err
    addresses("missing")
    assert multi30k("train") == PAIRS
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("inside", ["multi30k", "."])
def test_found_in_heed_data(monkeypatch, tmp_path, inside):
    folder = tmp_path / "data with spaces" / inside
    folder.mkdir(parents=True)
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    monkeypatch.setenv("HEED_DATA", str(tmp_path / "data with spaces"))
    assert multi30k() == PAIRS


@pytest.mark.parametrize("inside", ["multi30k", "."])
def test_at_hand_where_every_file_is_found_without_a_network(monkeypatch, tmp_path, addresses, inside):
    addresses("missing")
    named, at_hand = tmp_path / "data" / inside, module.at_hand
    named.mkdir(parents=True)
    module.cache_folder().mkdir(parents=True)
    for folder in (named, module.cache_folder()):
        if folder == named:
            monkeypatch.setenv("HEED_DATA", str(tmp_path / "data"))
        else:
            monkeypatch.delenv("HEED_DATA")
        for name in SUMS:
            assert not at_hand()
            (folder / name).write_bytes(b"")
        assert at_hand()


def test_a_cache_does_not_count_where_heed_data_is_set(monkeypatch, tmp_path):
    module.cache_folder().mkdir(parents=True)
    for name in SUMS:
        (module.cache_folder() / name).write_bytes(b"")
    assert module.at_hand()
    monkeypatch.setenv("HEED_DATA", str(tmp_path))
    assert not module.at_hand()


@pytest.mark.parametrize("bad", ["cut", "cut-silently", "page", "other", "missing", "busy"])
def test_the_next_address_helps(addresses, tmp_path, bad):
    addresses(bad, "fine")
    with pytest.warns(UserWarning, match=r"train.*gz came from http.*/fine/.*, because of\n  http"):
        assert multi30k() == PAIRS
    assert kept(tmp_path) == ["train.de.gz", "train.en.gz"]


def test_every_split_has_its_own_files(monkeypatch, tmp_path):
    stems = {"train": "train", "val": "val", "test": "test_2016_flickr"}
    files = {
        f"{stem}.{language}.gz": gzip.compress(f"{split} in {language}\n".encode())
        for split, stem in stems.items()
        for language in ("de", "en")
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.setattr(module, "SHA256", {n: hashlib.sha256(data).hexdigest() for n, data in files.items()})
    monkeypatch.setenv("HEED_DATA", str(tmp_path))
    for split in stems:
        assert multi30k(split) == [Pair(f"{split} in de", f"{split} in en", "de")]


# --- it goes wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("cut", "IncompleteRead.*7 more expected"),
        ("cut-silently", f"expected SHA-256 {SUMS['train.de.gz']}, actual SHA-256 [0-9a-f]{{64}}"),
        ("page", f"{len(PAGE)} bytes, expected SHA-256 .* {hashlib.sha256(PAGE).hexdigest()}"),
        ("other", f"expected SHA-256 {SUMS['train.de.gz']}, actual SHA-256"),
        ("missing", "HTTP Error 404"),
        ("busy", "HTTP Error 503"),
    ],
)
def test_nothing_wrong_stays_on_disk(addresses, tmp_path, how, sentence):
    addresses(how)
    with pytest.raises(ValueError, match=sentence) as caught:
        multi30k()
    assert kept(tmp_path) == []
    message = str(caught.value)
    assert message.startswith("Multi30k's train.de.gz could not be fetched.")
    assert f"/{how}/train.de.gz and put it into {tmp_path / 'cache' / 'multi30k'}" in message
    addresses("fine")
    assert multi30k() == PAIRS


def test_no_network(monkeypatch, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(module, "ADDRESSES", (f"http://127.0.0.1:{port}/{{name}}",))
    with pytest.raises(ValueError, match=r"could not be fetched.\n  http://127.0.0.1:.*refused") as caught:
        multi30k()
    assert str(tmp_path / "cache" / "multi30k") in str(caught.value)
    assert kept(tmp_path) == []


def test_a_full_disk_leaves_nothing_behind(addresses, monkeypatch, tmp_path):
    names = []

    def full(descriptor):
        names.extend(kept(tmp_path))
        raise OSError(28, "No space left on device")

    addresses("fine")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match=r"could not be written .*No space left on device.*HEED_CACHE"):
        multi30k()
    assert len(names) == 1 and names[0] not in FILES  # it gets its name when it is whole
    assert kept(tmp_path) == []


@pytest.mark.parametrize("place", ["HEED_DATA", "HEED_CACHE"])
def test_a_damaged_file_is_refused(monkeypatch, tmp_path, place):
    folder = tmp_path / "here" / "multi30k"
    folder.mkdir(parents=True)
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    (folder / "train.en.gz").write_bytes(PAGE)
    monkeypatch.setenv(place, str(tmp_path / "here"))
    expected, actual = SUMS["train.en.gz"], hashlib.sha256(PAGE).hexdigest()
    with pytest.raises(ValueError, match=f"expected SHA-256 {expected}, actual SHA-256 {actual}") as caught:
        multi30k()
    assert str(folder / "train.en.gz") in str(caught.value)
    assert (folder / "train.en.gz").read_bytes() == PAGE


def test_a_missing_file_is_named_with_its_addresses_and_its_folder(monkeypatch, tmp_path, addresses):
    addresses("fine")
    monkeypatch.setenv("HEED_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"HEED_DATA names .* Multi30k's train.de.gz") as caught:
        multi30k()
    assert str(tmp_path / "multi30k") in str(caught.value) and "/fine/train.de.gz" in str(caught.value)
    assert kept(tmp_path) == []


def test_an_unknown_split():
    with pytest.raises(ValueError, match="split='dev' is unknown: choose one of train, val, test"):
        multi30k("dev")


# --- where things are kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "variable", "inside_home"),
    [
        ("linux", "XDG_CACHE_HOME", ".cache"),
        ("darwin", None, "Library/Caches"),
        ("win32", "LOCALAPPDATA", "AppData/Local"),
    ],
)
def test_every_system_has_its_own_place(monkeypatch, tmp_path, platform, variable, inside_home):
    for name in ("HEED_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module.sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert module.cache_folder() == tmp_path / inside_home / "heed" / "multi30k"
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "other"))
        assert module.cache_folder() == tmp_path / "other" / "heed" / "multi30k"


def test_where_there_is_no_home_a_named_folder_is_enough(monkeypatch, tmp_path):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(module.sys, "platform", "linux")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HEED_CACHE", str(tmp_path))
    assert module.cache_folder() == tmp_path / "multi30k"
    monkeypatch.delenv("HEED_CACHE")
    with pytest.raises(ValueError, match=r"home directory\. Let HEED_CACHE name a folder"):
        module.cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert module.cache_folder() == tmp_path / "heed" / "multi30k"


def test_the_real_addresses_and_sums(monkeypatch):
    monkeypatch.undo()
    assert len(module.ADDRESSES) > 1 and all(address.startswith("https://") for address in module.ADDRESSES)
    assert len(module.SHA256) == 6 and all(len(sum_) == 64 for sum_ in module.SHA256.values())
    assert {f"{stem}.{language}.gz" for stem in module.STEMS.values() for language in ("de", "en")} == set(
        module.SHA256
    )


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such permissions")
def test_a_file_in_the_cache_may_be_read_by_all(tmp_path):
    module._keep(tmp_path / "cache" / "file", b"whole")
    assert (tmp_path / "cache" / "file").stat().st_mode & 0o777 == 0o644

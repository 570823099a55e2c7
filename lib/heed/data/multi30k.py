"""Multi30k: 31,014 captions of photographs in German and English, fetched once, checked, and kept.

The captions describe pictures of Flickr30k; the German ones were translated from the English by professionals
(Elliott, Frank, Sima'an & Specia 2016, "Multi30K: Multilingual English-German Image Descriptions"). They
may be used for research and education, and not commercially. Therefore the course does not ship them: it
knows where they are, and what they must be, to the bit.
"""

import gzip
import hashlib
import http.client
import os
import sys
import tempfile
import urllib.request
import warnings
from pathlib import Path

from heed.data.corpus import Pair, check_request

ADDRESSES = (
    "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/{name}",
    "https://github.com/multi30k/dataset/raw/master/data/task1/raw/{name}",
    "https://archive.softwareheritage.org/api/1/content/sha256:{sha256}/raw/",
)
SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
}
STEMS = {"train": "train", "val": "val", "test": "test_2016_flickr"}
TIMEOUT = 20  # seconds
LARGEST = 10_000_000  # bytes; the largest of the files has 637,044


def multi30k(split="train"):
    """The captions of one split, in their order: German to English, 29,000, 1,014 and 1,000 of them.

    split: "train", "val" or "test" (which is the one of 2016)

    The files are looked for in the folder that the environment variable HEED_DATA names, or in `multi30k`
    inside it; if it is not set, they are fetched from ADDRESSES, once, and kept in `cache_folder()`.

    Returns a list of Pair(source, target, "de").
    Raises ValueError for an unknown split, and if a file is missing, cannot be fetched, or is not the right
    one.
    """
    check_request(0, split)
    german, english = (_lines(_find(f"{STEMS[split]}.{language}.gz")) for language in ("de", "en"))
    return [Pair(source, target, "de") for source, target in zip(german, english, strict=True)]


def at_hand():
    """Whether `multi30k` finds all its files on this machine, so that it need not fetch any."""
    return all(any(path.is_file() for path in _places(name)) for name in SHA256)


def cache_folder():
    """Where fetched files are kept: HEED_CACHE if it is set, else where this system keeps such things."""
    if os.environ.get("HEED_CACHE"):
        return Path(os.environ["HEED_CACHE"]) / "multi30k"
    variable, *below = {
        "win32": ("LOCALAPPDATA", "AppData", "Local"),
        "darwin": ("", "Library", "Caches"),
    }.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    try:
        system = Path(os.environ.get(variable) or Path.home().joinpath(*below))
    except RuntimeError as error:  # a user without a home
        raise ValueError(f"{error} Let HEED_CACHE name a folder with room for 2 MB.") from error
    return system / "heed" / "multi30k"


def _lines(data):
    """Only a line feed ends a line: str.splitlines would also split at rarer characters inside a caption."""
    return [line.strip() for line in gzip.decompress(data).decode("utf-8").removesuffix("\n").split("\n")]


def _places(name):
    """Where a file is looked for on this machine: in HEED_DATA if it is set, else in the cache."""
    if os.environ.get("HEED_DATA"):
        folder = Path(os.environ["HEED_DATA"])
        return folder / "multi30k" / name, folder / name
    return (cache_folder() / name,)


def _find(name):
    """The bytes of a file: from HEED_DATA, from the cache, or from the network."""
    if os.environ.get("HEED_DATA"):
        folder = Path(os.environ["HEED_DATA"])
        for path in _places(name):
            if path.is_file():
                return _checked(path)
        raise ValueError(
            f"HEED_DATA names {folder}, but Multi30k's {name} is neither there nor in {folder / 'multi30k'}. "
            f"{_where_to_get_it(name, folder)}, or unset HEED_DATA to have it fetched."
        )
    path = cache_folder() / name
    if not path.is_file():
        _keep(path, _fetch(name))
    return _checked(path)


def _checked(path):
    """The bytes of a file on disk, if they are the right ones."""
    data = path.read_bytes()
    if wrong := _what_is_wrong(data, path.name):
        raise ValueError(f"{path} is not the file that it should be: {wrong}. Delete it and get it again.")
    return data


def _what_is_wrong(data, name):
    """A sentence if these bytes are not the file of that name, or None."""
    actual = hashlib.sha256(data).hexdigest()
    if actual == SHA256[name]:
        return None
    return f"{len(data):,} bytes, expected SHA-256 {SHA256[name]}, actual SHA-256 {actual}"


def _fetch(name):
    """The bytes of a file from the first address that has the right ones, checked before they are kept."""
    problems = []
    print(f"Fetching Multi30k's {name} (captions for research and education only) …", file=sys.stderr)
    for address in ADDRESSES:
        url = address.format(name=name, sha256=SHA256[name])
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
                data = response.read(LARGEST)
                if response.length:
                    raise http.client.IncompleteRead(data, response.length)
        except (OSError, http.client.HTTPException) as error:
            problems.append(f"{url}: {error}")
            continue
        wrong = _what_is_wrong(data, name)
        if wrong is None:
            if problems:
                warnings.warn("\n  ".join([f"{name} came from {url}, because of", *problems]), stacklevel=2)
            return data
        problems.append(f"{url}: {wrong}")
    advice = _where_to_get_it(name, cache_folder())
    raise ValueError("\n  ".join([f"Multi30k's {name} could not be fetched.", *problems, f"{advice}."]))


def _where_to_get_it(name, folder):
    addresses = " or ".join(address.format(name=name, sha256=SHA256[name]) for address in ADDRESSES)
    return f"Get it from {addresses} and put it into {folder}"


def _keep(path, data):
    """Write beside, then rename: a file in the cache is whole, or it is not there."""
    beside = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            beside = Path(file.name)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(0o644)  # a temporary file is its owner's alone, and a cache may be shared
        os.replace(beside, path)
    except OSError as error:
        if beside:
            beside.unlink(missing_ok=True)
        raise ValueError(
            f"{path} could not be written ({error}). Let HEED_CACHE name a folder with room for 2 MB."
        ) from error

"""From a TOML file to a checked recipe, and back."""

import difflib
import json
import os
import sys
import tomllib
from pathlib import Path

from heed.attention import check_heads
from heed.engine.arguments import lr_schedule
from heed.position import sinusoids
from heed.recipe.keys import FORMER, SECTIONS, is_too_large

OURS = Path(__file__).parents[3] / "recipes"


def read(path, changes=()):
    """Read a recipe and check it; a key that it leaves out gets its default.

    path: a TOML file; files that it names are looked for in its folder. A bare name such as
        "multi30k-10min.toml" that is not here is looked for among the course's own recipes; "-" is the
        standard input, whose files, like those of a pipe, are looked for where the command is run
    changes: strings such as "model.d_model=32", in place of what the file says

    Returns the recipe: a dictionary of sections, each a dictionary of values, None for what is not given.
    Raises ValueError, with a sentence, for a file that is no recipe, a key that is unknown, a value that is
    impossible, alone or together with another.
    """
    path = find(path)
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        given = tomllib.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise ValueError(f"{path} is no recipe: its brackets are nested too deeply.") from None
    except ValueError as error:  # tomllib's, or of a number with thousands of digits
        raise ValueError(f"{path} is not a TOML file in UTF-8: {error}.") from None
    try:
        for change in changes:
            given = _changed(given, change)
        return _completed(_checked(given), path.parent if path.is_file() else Path())
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def find(path):
    """Where a recipe lies: as it is named, or among the course's own. ValueError if it is nowhere."""
    for candidate in (Path(path), OURS / path):
        if str(path) == "-" or (candidate.exists() and not candidate.is_dir()):
            return candidate
    known = ", ".join(sorted(file.name for file in OURS.glob("*.toml")))
    raise ValueError(f"There is no recipe {path}. The course's own are {known or 'not here'}.")


def to_toml(recipe):
    """A recipe as the text of a TOML file, every value spelled out."""
    parts = []
    for section, keys in recipe.items():
        given = {key: value for key, value in keys.items() if value is not None}
        lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in given.items())
        parts += ["\n".join([f"[{section}]", *lines])] if given else []
    return "\n\n".join(parts) + "\n"


def differences(old, new, free=False):
    """What two recipes have different, in phrases. Where files lie does not count, what they hold does.

    free: of the keys that a resumed training may change; else of all others
    """
    changed = [
        (section, key, value, new[section][key])
        for section, keys in old.items()
        for key, value in keys.items()
        if SECTIONS[section][key].free == free and value != new[section][key]
    ]
    phrases = [
        f"[{section}] {key} was {json.dumps(before)} and is {json.dumps(now)}"
        for section, key, before, now in changed
        if section != "made" and not type(before) is type(now) is list
    ]
    made = [what for section, what, *_ in changed if section == "made"]
    if "data" in made:
        return [*phrases, "the sentences to train and validate with are others"]
    return [*phrases, "the sub-words are others"] if made and not phrases else phrases


def _changed(given, change):
    """What a file says, with one value replaced: "training.lr=0.02". What is no TOML value is a word.

    Files in a change are looked for where the command is run, and not where the recipe lies.
    """
    name, is_there, text = change.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (is_there and dot):
        raise ValueError(f"a change is written section.key=value, as in model.d_model=32, not {change!r}.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text.strip()
    if isinstance(value, list):
        value = [os.path.abspath(name) if isinstance(name, str) else name for name in value]
    before = given.get(section, {})
    return given | {section: {**before, key: value}} if isinstance(before, dict) else given


def _checked(given):
    """The sections and values given, together with the defaults, if all of them are possible."""
    for section, keys in given.items():
        _check_known("section", section, SECTIONS)
        if not isinstance(keys, dict):
            raise ValueError(f"{section} is a section, [{section}], with keys of its own.")
        for key, value in keys.items():
            _check_known(f"key in [{section}]", key, SECTIONS[section])
            if is_too_large(value):
                raise ValueError(f"[{section}] {key} is a number that is too large: {_short(value)}.")
            if not SECTIONS[section][key].fits(value):
                said, wanted = json.dumps(value, default=str), SECTIONS[section][key].wanted
                raise ValueError(f"[{section}] {key} = {_short(said)} cannot be: it must be {wanted}.")
    recipe = {
        section: {key: given.get(section, {}).get(key, rule.default) for key, rule in keys.items()}
        for section, keys in SECTIONS.items()
    }
    if recipe["data"]["train"] is None:
        raise ValueError(f"[data] train is missing: {SECTIONS['data']['train'].wanted}.")
    if recipe["training"]["updates"] is None and recipe["training"]["minutes"] is None:
        raise ValueError("[training] needs updates or minutes, or both: it would never end.")
    if recipe["training"]["patience"] is not None and recipe["data"]["val"] is None:
        raise ValueError("[training] patience needs [data] val, to see whether the model gets better.")
    check_heads(recipe["model"]["d_model"], recipe["model"]["n_heads"])
    sinusoids(0, recipe["model"]["d_model"])  # refuses a width that is odd
    lr_schedule(*(recipe["training"][key] for key in ("schedule", "warmup", "cooldown")))
    return recipe


def _check_known(what, word, known):
    """Refuse an unknown word, and name its new name, the section in which it is known, or the nearest one."""
    if word in known:
        return
    belongs = [f"[{section}]" for section, keys in SECTIONS.items() if word in keys]
    nearest = difflib.get_close_matches(word, known, n=1, cutoff=0.0)
    advice = f"It belongs to {belongs[0]}" if belongs else f"The nearest known one is {nearest[0]}"
    if FORMER.get(word) in known:
        advice = f"It is called {FORMER[word]} now"
    raise ValueError(f"there is no {what} named {word}. {advice}.")


def _short(value):
    """A value as a sentence can hold it."""
    said = str(value)
    return said if len(said) <= 60 else f"{said[:40]}… ({len(said):,} characters)"


def _completed(recipe, folder):
    """The recipe with the full names of its files, so that it can be read from everywhere."""
    for split in ("train", "val", "test"):
        if isinstance(recipe["data"][split], list):
            named = [Path(os.path.abspath(folder / name)).as_posix() for name in recipe["data"][split]]
            for name in named:
                try:
                    writable = tomllib.loads(f"name = {json.dumps(name, ensure_ascii=False)}")["name"] == name
                    name.encode()
                except ValueError:
                    writable = False
                if not writable:
                    raise ValueError(
                        f"[data] {split} names {name!a}, which cannot be written into a recipe: it is "
                        "not UTF-8, or has signs that do not print. Give the file another name."
                    )
            recipe["data"][split] = named
    return recipe

"""The files around the course agree: versions, addresses, licences, what the README promises."""

import re
import shutil
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import heed

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PEERS = list(
    map(Requirement, EXTRAS.pop("bench") + EXTRAS.pop("race"))
)  # only `make bench`, `make race` install them
WANTED = [Requirement(line) for line in sum(EXTRAS.values(), PROJECT["dependencies"])]
REPOSITORY = PROJECT["urls"]["Repository"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = (
    ("linux", "Linux", "posix", "x86_64"),
    ("darwin", "Darwin", "posix", "arm64"),
    ("win32", "Windows", "nt", "AMD64"),
)


def read(name):
    """The text of a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_reading_order_on_the_librarys_page_is_the_librarys():
    (order,) = re.findall(
        r"The library reads in the order in which it is taught: (.*?)\. ", read("lib/README.md"), re.S
    )
    assert re.findall(r"`(\w+)`", order) == list(heed.MODULES)


# --- The lock -----------------------------------------------------------------------------------------------


def pins(**environment):
    """The versions in the lock: name -> version, as they hold on this machine or in the environment given."""
    lines = [Requirement(line) for line in read("requirements.lock").splitlines() if not line.startswith("#")]
    held = [line for line in lines if line.marker is None or line.marker.evaluate(environment)]
    found = {canonicalize_name(line.name): str(line.specifier).removeprefix("==") for line in held}
    assert len(found) == len(held), "a package stands in the lock twice for one environment"
    return found


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system[1])
def test_the_lock_holds_a_version_in_range_for_everything_asked_for(python, system):
    keys = ("sys_platform", "platform_system", "os_name", "platform_machine")
    versions = {"python_version": python, "python_full_version": f"{python}.9"}
    locked = pins(**dict(zip(keys, system, strict=True)), **versions)
    for wanted in WANTED + PEERS:
        assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)]), str(wanted)
    assert locked["torch"] == "2.13.0"


def test_the_lock_is_complete():
    locked, seen, waiting = pins(), set(), list(WANTED)
    here = {canonicalize_name(wanted.name): metadata.version(wanted.name).split("+")[0] for wanted in WANTED}
    if any(locked[name] != version for name, version in here.items()):
        pytest.skip("other versions than the lock's are installed; `make test` installs the lock's")
    while waiting:
        wanted = waiting.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        assert canonicalize_name(wanted.name) in locked, f"{wanted} is needed and not in the lock"
        extras = wanted.extras or {""}
        for needed in map(Requirement, metadata.requires(wanted.name) or []):
            if not needed.marker or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
    assert len(seen) > len(WANTED)


# --- conda, Binder, citation, licences ----------------------------------------------------------------------


def test_the_conda_environment_asks_for_what_pyproject_asks_for():
    pypi = {"pytorch": "torch", "matplotlib-base": "matplotlib", "seaborn-base": "seaborn"}
    lines = yaml.safe_load(read("environment.yml"))["dependencies"]
    *from_pip, course = next(line for line in lines if isinstance(line, dict))["pip"]
    assert course == "-e ."
    found = [Requirement(line) for line in lines + from_pip if isinstance(line, str)]
    found = {canonicalize_name(pypi.get(line.name, line.name)): line.specifier for line in found}
    assert str(found.pop("python")) == PROJECT["requires-python"]
    assert "pip" in found and not str(found.pop("pip"))
    assert found == {canonicalize_name(wanted.name): wanted.specifier for wanted in WANTED}


def test_the_version_and_the_address_are_everywhere_the_same():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert heed.__version__ == PROJECT["version"] == citation["version"]
    assert citation["repository-code"] == REPOSITORY
    assert citation["title"] and citation["message"] and citation["authors"]
    assert " AND ".join(citation["license"]).lower() == PROJECT["license"].lower()


def test_licences_are_whole():
    assert read("LICENSE").startswith("MIT License\n") and read("LICENSE").count("\n") == 21
    words = read("LICENSE-TEXT").split()
    assert words[:3] == ["Attribution", "4.0", "International"] and len(words) == 2573


# --- What the README and the notebooks say of the repository ------------------------------------------------


def test_the_first_cells_fetch_the_course_from_its_address():
    for path in ROOT.glob("chapters/**/[0-9]*.ipynb"):
        first = nbformat.read(path, as_version=4).cells[0].source
        assert re.findall(r"https?://[^\s'\"]+", first) == [REPOSITORY], path.name


def test_the_readme_lists_the_chapters_that_exist_and_the_planned_ones():
    rows = re.findall(r"^\| (\d\d) \| (.+?) \|", read("README.md"), re.MULTILINE)
    assert [number for number, _ in rows] == [f"{number:02}" for number in range(18)]
    linked = [re.fullmatch(r"\[.+\]\((.+)\)", name) for _, name in rows]
    assert [link is None for link in linked] == [name.endswith(" *(planned)*") for _, name in rows]
    for (number, _), link in zip(rows, linked, strict=True):
        assert not link or link[1].startswith(f"chapters/{number}_"), link[1]
    there = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("chapters/[0-9]*.ipynb"))]
    there.remove("chapters/00_tour.ipynb")  # no chapter: it is one of the ways in, above the table
    assert [link[1] for link in linked if link] == there
    assert "](chapters/00_tour.ipynb)" in read("README.md").split("## Chapters")[0]


def test_the_readme_links_to_files_that_exist_and_to_its_own_repository():
    for page in (
        "README.md",
        "INSTALL.md",
        "CONTRIBUTING.md",
        "bench/README.md",
        "recipes/README.md",
        "lib/README.md",
    ):
        links = re.findall(r"\]\(([^)]+)\)", read(page))
        for link in links:
            if not link.startswith("http"):
                assert ((ROOT / page).parent / link).exists(), f"{page}: {link}"
        assert page == "README.md" or f"]({page})" in read("README.md"), f"the README does not lead to {page}"
    links = re.findall(r"\]\(([^)]+)\)", read("README.md"))
    name = REPOSITORY.removeprefix("https://github.com/")
    colab = f"https://colab.research.google.com/github/{name}/blob/main/"
    binder = f"https://mybinder.org/v2/gh/{name}/main?labpath="
    for site in (colab, binder):
        pages = [link.removeprefix(site) for link in links if link.startswith(site)]
        assert pages and all((ROOT / page).exists() for page in pages), site


# --- What lies in the repository ----------------------------------------------------------------------------


def git(*words):
    """What git prints; the test is skipped where the course is no clone."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)


def test_no_file_names_a_machine_or_the_host_of_a_registry():
    machine = r"(?<![\w.~])/(?:home|Users|root|tmp|work|farm|opt)/\w|\b[A-Z]:\\+Users"
    host = r"py[p]i\.org|python[h]osted|registry\.npm[j]s|deb\.deb[i]an|download\.pyt[o]rch"
    planted = "tests/test_book_sabotage.py"  # such paths are put into notebooks there, to be found
    for name in git("ls-files", ":!" + planted).stdout.splitlines():
        path = ROOT / name
        if path.suffix not in {".png", ".otf", ".ttf", ".safetensors"} and path.exists():
            found = re.search(f"{machine}|{host}", path.read_text(encoding="utf-8"))
            assert found is None, f"{name}: {found[0]}"


def test_git_ignores_what_is_made_and_never_the_library():
    made = (".venv/ready", "book/_build/html/index.html", "drafts/04.py", "chapters/.ipynb_checkpoints/a")
    ours = ("lib/heed/new.py", "lib/heed/data/new.py", "chapters/04_new.ipynb", "assets/04_new/log.json")
    for name in made + ours:
        assert git("check-ignore", "-q", name).returncode == (name in ours), name


# --- The public CI ------------------------------------------------------------------------------------------


def test_the_workflow_covers_three_systems_two_pythons_and_a_weekly_run():
    workflow = yaml.safe_load(read(".github/workflows/test.yml"))
    locked, newest = workflow["jobs"]["locked"], workflow["jobs"]["newest"]
    for job in (locked, newest):
        systems = job["strategy"]["matrix"]["os"]
        assert sorted(system.split("-")[0] for system in systems) == ["macos", "ubuntu", "windows"]
    assert locked["strategy"]["matrix"]["python"] == [PYTHONS[0], PYTHONS[-1]]
    assert workflow[True]["schedule"]  # YAML reads the key `on` as true
    assert "requirements.lock" in str(locked["steps"]) and "requirements.lock" not in str(newest["steps"])

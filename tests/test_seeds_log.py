"""The committed log of chapter 11's trainings is of the cells of now, and says what the chapter says."""

import re
from pathlib import Path

import nbformat
import pytest

SCRIPT = Path(__file__).parents[1] / "assets" / "11_annotated_transformer" / "seeds.py"
AGAIN = "python assets/11_annotated_transformer/seeds.py brings the log up to date"


@pytest.fixture(scope="module")
def answers(script):
    """The chapter's prose, as one text."""
    cells = nbformat.read(script.CHAPTER, 4).cells
    return " ".join(cell.source for cell in cells if cell.cell_type == "markdown")


def ends(log, name):
    """The last losses of the three seeds."""
    return [last for _, last in log[name[0]][name[1]]]


def test_the_log_is_of_the_cells_of_now(script, log):
    assert log["cells"] == {part: script.digest(part) for part in script.PARTS}, AGAIN


def test_a_comment_leaves_the_log_as_it_is_and_another_line_does_not(script):
    def means(mark, old="", new=""):
        return script.meant(mark, script.sources()[mark].replace(old, new))

    norm, data = "class Norm(nn.Module):", 'languages = "de"'
    assert means(norm, "self.eps = eps\n", "self.eps = eps  # small\n") == means(norm)
    assert means(norm, "print(", "print(1, ") == means(norm)
    assert means(norm, "x.mean(dim=-1", "x.mean(dim=1") != means(norm)
    assert means(data, "8000", "800") != means(data)  # of data each line counts


def test_another_seed_reaches_the_cells(script):
    one, other = (script.chapter(seed)["assemble"](script.EncoderDecoder) for seed in (0, 1))
    assert not one.generator.proj.weight.equal(other.generator.proj.weight)


def test_the_shares_of_dates_are_those_of_the_chapter(log, answers):
    assert "at least 95 of 100 are right, with each of three seeds" in answers
    assert len(log["dates"]) == 3 and min(log["dates"]) >= 0.95
    low, high = map(int, re.search(r"(\d+) to (\d+) of 100 dates are right at the end", answers).groups())
    assert (low, high) == tuple(round(100 * pick(log["roots"])) for pick in (min, max))


def test_the_controls_are_as_the_scoreboard_says(log, answers):
    assert "The same training without the causal mask writes none." in answers
    few, more = (round(100 * share) for share in sorted(log["no positions"]))
    assert f"Some, {few} or {more}." in answers
    assert len(log["no mask"]) == len(log["no positions"]) == 2
    goals = "1996-06-16", "2000-07-27", "2013-06-25"
    assert [*map(sorted, log["anagrams"])] == [*map(sorted, goals)]
    assert f"{log['anagrams'][0]} for {goals[0]}" in answers
    assert max(log["no mask"]) == 0 and 0.1 < min(log["no positions"]) <= max(log["no positions"]) < 0.3


def test_the_initialisations_are_as_the_chapter_says_with_every_seed(log, answers):
    assert "All this holds with each of three seeds" in answers
    for seed in range(3):
        last = {name: runs[seed][1] for name, runs in log["begins"].items()}
        assert max(last["ours"], last["torch's matrices"]) < 0.95 and last["torch's matrices"] < last["ours"]
        assert 1.1 < last["torch's embeddings"] < 1.75 < min(last["deviation 1"], last["zeros"])
        assert log["begins"]["deviation 1"][seed][0] > 4


def test_the_changes_cost_what_the_laboratory_says(log):
    last = {name: ends(log, ("changes", name)) for name in log["changes"]}
    first = {name: [run[0] for run in runs] for name, runs in log["changes"].items()}
    for seed in range(3):
        near, *between, far, farthest = (last[name][seed] for name in last)
        assert near < min(between) < max(between) < far < farthest
        rest = [first[name][seed] for name in first if name != "generator"]
        assert first["generator"][seed] > 4 > 2.7 > max(rest)
    assert max(log["large"]) < 0.9 and min(log["large"]) > 0.6


def test_only_three_wrong_joints_end_clearly_above_the_right_model(log, answers):
    right = max(log["joints"]["nothing"])
    above = {name for name, found in log["joints"].items() if min(found) > right + 0.05}
    assert len(above) == 3 and all(any(n.startswith(w) for n in above) for w in ("late", "outer", "no f"))
    assert "Only three (late lambda, outer x, no factor) end clearly above every run" in answers


def test_copying_takes_a_while(log, answers):
    assert "is below 0.01 and that of the right model 0.03 to 0.04" in answers
    assert max(log["longer"]["no causal mask"]) < 0.01
    assert {f"{loss:.2f}" for loss in log["longer"]["nothing"]} == {"0.03", "0.04"}

"""tasks.stories: questions that need one fact, two or three, and things that change hands."""

from itertools import islice, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.tasks import PORTS, STORY_WORDS, THINGS, endless, moving_stories, stories
from heed.tasks.stories import ASKED, EACH, PERSONS, SHIPS, WHO


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_words_are_distinct_and_each_kind_has_as_many():
    assert len(set(STORY_WORDS)) == len(STORY_WORDS) == WHO + len(ASKED)
    assert {len(kind) for kind in (THINGS, PERSONS, SHIPS, PORTS)} == {EACH}
    assert STORY_WORDS[WHO:] == ASKED == ("who?", "ship?", "port?")


@settings(max_examples=30)
@given(st.integers(1, EACH), st.integers(0, 2**31))
def test_the_answer_is_as_many_facts_away_as_needed(n_things, seed):
    drawn = stories(7, n_things, seeded(seed))
    assert drawn.facts.shape == (7, 3 * n_things, 2)
    for facts, (asked, thing), answer, needed in zip(*(part.tolist() for part in drawn), strict=True):
        told = dict(facts)
        assert len(told) == len({second for _, second in facts}) == 3 * n_things
        assert all(second // EACH == first // EACH + 1 for first, second in facts)
        assert asked == WHO + needed - 1 and thing < EACH
        where = thing
        for _ in range(needed):
            where = told[where]
        assert where == answer


@settings(max_examples=30)
@given(st.integers(1, EACH), st.integers(1, 9), st.integers(0, 2**31))
def test_in_a_moving_story_the_latest_fact_counts(n_things, n_moves, seed):
    drawn = moving_stories(7, n_things, n_moves, seeded(seed))
    assert drawn.facts.shape == (7, n_things + n_moves, 2) and (drawn.needed == 1).all()
    for facts, (asked, thing), answer in zip(*(part.tolist() for part in drawn[:3]), strict=True):
        of_it = [second for first, second in facts if first == thing]
        assert asked == WHO and of_it[-1] == answer and len(of_it) > 1
        assert all(a != b for a, b in pairwise(of_it))
        assert len({first for first, _ in facts[:n_things]}) == n_things


def test_every_answer_every_need_and_every_place_is_equally_frequent():
    drawn = stories(30000, 4, seeded())
    shares = (drawn.needed.bincount()[1:], drawn.answers.bincount()[EACH : 4 * EACH])
    place = (drawn.facts[..., 0] == drawn.questions[:, 1:]).sum(dim=0)
    for counts in (*shares, place):
        share = counts / counts.sum()
        assert torch.allclose(share, torch.full_like(share, 1 / len(share)), atol=0.01)


def test_a_story_is_told_in_sentences():
    drawn = stories(1, 1, seeded())
    (thing, person), (_, ship), (_, port) = sorted(drawn.facts[0].tolist())
    words = [STORY_WORDS[i] for i in (thing, person, ship, port)]
    assert sorted(drawn.text(0)) == sorted(
        [
            f"The {words[0]} is with {words[1]}.",
            f"{words[1]} is on the {words[2]}.",
            f"The {words[2]} is in {words[3]}.",
        ]
    )


def test_the_seed_decides_and_no_batch_comes_again():
    for task, sizes in ((stories, (3, 4)), (moving_stories, (3, 4, 2))):
        first, second = islice(endless(task, *sizes, seed=1), 2)
        assert not torch.equal(first.facts, second.facts)
        for mine, again in zip(first, next(endless(task, *sizes, seed=1)), strict=True):
            assert torch.equal(mine, again)


def test_all_questions_of_one_kind():
    assert (stories(50, 3, seeded(), needed=2).questions[:, 0] == WHO + 1).all()


@pytest.mark.parametrize("n_things", [0, EACH + 1])
def test_too_few_or_too_many_things_are_refused(n_things):
    for task, sizes in ((stories, ()), (moving_stories, (1,))):
        with pytest.raises(ValueError, match=f"n_things={n_things} is not from 1 to 20"):
            task(2, n_things, *sizes, seeded())


def test_other_questions_and_things_that_stay_are_refused():
    with pytest.raises(ValueError, match="needed=4: a question needs 1, 2 or 3 facts"):
        stories(2, 3, seeded(), needed=4)
    with pytest.raises(ValueError, match="n_moves=0"):
        moving_stories(2, 3, 0, seeded())

"""The drawing of the whole Transformer: it shows what it is given, and nothing lies on anything else."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from heed.attention import causal_mask
from heed.plot.architecture import MASKS, SHAPES, architecture

GIVEN = {name: f"(2, 11, 64) {i}" for i, name in enumerate(SHAPES)}
GIVEN |= {"hidden": "64 → 128 → 64", "source": "(2, 12)", "target": "(2, 11)"}
SEEN = {"encoder": torch.ones(12, 12), "decoder": causal_mask(11), "source": torch.ones(11, 12)}


@pytest.fixture
def ax():
    yield architecture(GIVEN, SEEN, n_layers=3, title="A title")
    plt.close("all")


def boxes(ax):
    """Where each text stands, in pixels."""
    ax.figure.draw_without_rendering()
    return {text: text.get_window_extent() for text in ax.texts if text.get_text()}


def test_every_shape_and_the_number_of_layers_are_written(ax):
    words = " ".join(text.get_text() for text in ax.texts)
    assert all(GIVEN[name] in words for name in SHAPES)
    assert words.count("3 ×") == 2
    assert "pre-norm" in words and "post-norm" in words


def test_the_masks_are_those_that_were_given(ax):
    drawn = [np.asarray(image.get_array()) for image in ax.images]
    assert len(drawn) == len(MASKS)
    for name, cells in zip(MASKS, drawn, strict=True):
        assert np.array_equal(cells, SEEN[name].double().numpy()), name


def test_q_comes_from_below_and_k_and_v_from_the_side(ax):
    letters = [(text.get_text(), text.get_position()) for text in ax.texts if text.get_text() in tuple("qkv")]
    assert sorted(letter for letter, _ in letters) == sorted("qkv" * 3)
    (_, source_q), *_ = sorted((at for at in letters if at[0] == "q"), key=lambda at: -at[1][1])
    sides = [place for letter, place in letters if letter in ("k", "v") and place[1] > source_q[1]]
    assert len(sides) == 2 and all(x < source_q[0] - 1 for x, _ in sides)


def test_no_text_lies_on_another_or_leaves_the_figure(ax):
    found = boxes(ax)
    for (a, one), (b, two) in combinations(found.items(), 2):
        assert not one.overlaps(two), (a.get_text(), b.get_text())
    page = ax.figure.bbox
    for text, box in found.items():
        assert page.x0 <= box.x0 and box.x1 <= page.x1, text.get_text()
        assert page.y0 <= box.y0 and box.y1 <= page.y1, text.get_text()


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="shapes of memory"):
        architecture({name: "" for name in SHAPES if name != "memory"}, SEEN, 1)
    with pytest.raises(ValueError, match="masks of decoder"):
        architecture(GIVEN, {name: SEEN["source"] for name in MASKS if name != "decoder"}, 1)
    with pytest.raises(ValueError, match="encoder has another shape"):
        architecture(GIVEN, SEEN | {"encoder": torch.ones(1, 12, 12)}, 1)

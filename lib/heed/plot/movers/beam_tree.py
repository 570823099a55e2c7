"""A beam search in a small tree of sentences, step by step."""

import math
from dataclasses import dataclass, field

from heed.plot.charts import signed
from heed.plot.movers.mover import Mover, picture, whole
from heed.plot.style import COLOURS, as_text, written


@dataclass(eq=False)
class Node:
    """A beginning of a sentence: its last token, log P of all its tokens, and what may follow."""

    token: str
    log_p: float = 0.0
    before: "Node | None" = None
    after: list = field(default_factory=list)
    height: float = 0.0

    def path(self):
        """The nodes from the first token to this one."""
        return [*self.before.path(), self] if self.before else []


def beam_tree(tree, width=2, begin="BOS", title=""):
    """Show a beam search in a tree of all sentences; the reader moves its width, 1 to 4, and its step.

    Of all hypotheses that are one token longer, the `width` likeliest stay; one that has ended leaves the
    beam, and the likeliest that ended is the answer. There is no length penalty. Width 1 is greedy search.

    tree: what may come first, token -> (log P of the token, the tree of what may follow it); after the end of
        a sentence it is empty
    width: to begin with
    begin: what stands at the root
    title: the finding; how the two searches compare if left out

    Returns a Mover. Raises ValueError for an empty tree, more than 16 sentences, a log P above 0, or tokens
    whose probabilities sum to more than 1.
    """
    width, root = whole(width, "width", 1, 4), Node(written(begin))
    nodes = [*_grown(root, tree)]
    leaves = [node for node in nodes if not node.after]
    if not 1 <= len(leaves) <= 16:
        raise ValueError(f"a tree to look at has 1 to 16 sentences, and this one has {len(leaves)}")
    given = {"begin": root.token, "width": width, "tree": _packed(tree)}
    state, answer = search(root, width)
    greedy = search(root, 1)[1]
    title = title or _finding(width, answer, greedy)

    depth = max(len(node.path()) for node in nodes)
    for row, leaf in enumerate(leaves):
        leaf.height = -row
    _raise(root)
    figure = picture(1.1 * depth + 1.2, 0.42 * len(leaves) + 1.3, title)
    ax = figure.subplots()
    looks = {"answer": ("green", 3.2), "kept": ("blue", 2.4), "pruned": (None, 1), "unseen": (None, 0.7)}
    for node in [root, *nodes]:
        how = "answer" if node in answer.path() else state.get(node, "kept" if node is root else "unseen")
        name, thick = looks[how]
        colour = COLOURS[name] if name else "#999999"
        x = len(node.path())
        if node.before:
            dashes = (2, 2) if how == "pruned" else ()
            ends = [x - 1, x], [node.before.height, node.height]
            ax.plot(*ends, color=colour, linewidth=thick, dashes=dashes, zorder=1)
        said = node.token
        if node.before and how != "unseen":
            said += f"\n{signed(f'{node.log_p:.2f}')}"
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        ink = as_text(colour) if name else "#707070"
        ax.text(x, node.height, said, ha="center", va="center", fontsize=9, color=ink, bbox=box)
    lines = [f"a beam of {width}: {_said(answer)}"]
    lines += [f"greedy search: {_said(greedy)}"] * (width > 1)
    ax.set_title("\n".join(lines), fontsize=10)
    ax.set(xlabel="step", xticks=range(depth + 1), yticks=[], xlim=(-0.4, depth + 0.4))
    ax.set(ylim=(0.6 - len(leaves), 0.5))
    ax.grid(visible=False)
    ax.spines["left"].set_visible(False)
    return Mover("beam_tree", given, figure, title)


def search(root, width):
    """For each node whether it was kept or pruned, and the likeliest that ended."""
    state, ended, live = {}, [], [root]
    while live:
        longer = sorted((node for old in live for node in old.after), key=lambda node: -node.log_p)
        state |= {node: "kept" if rank < width else "pruned" for rank, node in enumerate(longer)}
        ended += [node for node in longer[:width] if not node.after]
        live = [node for node in longer[:width] if node.after]
    return state, max(ended, key=lambda node: node.log_p)


def _grown(root, tree):
    """Grow the tree below a node; all its nodes, a sentence after the other."""
    total = sum(math.exp(log_p) for log_p, _ in tree.values() if log_p <= 0)
    if total > 1 + 1e-6:
        raise ValueError(f"after {root.token!r} the probabilities of {list(tree)} sum to {total:.3g}")
    for token, (log_p, rest) in tree.items():
        if not log_p <= 0 or math.isinf(log_p):
            raise ValueError(f"log P of {token!r} is {log_p!r}; it must be finite and at most 0")
        node = Node(written(token), root.log_p + float(log_p), root)
        root.after.append(node)
        yield node
        yield from _grown(node, rest)


def _packed(tree):
    """The tree as lists [token, log P, what follows]."""
    return [[written(token), round(float(p), 4) + 0.0, _packed(rest)] for token, (p, rest) in tree.items()]


def _raise(node):
    """Put each node half-way between the first and the last that follow it."""
    for child in node.after:
        _raise(child)
    if node.after:
        node.height = (node.after[0].height + node.after[-1].height) / 2


def _finding(width, answer, greedy):
    """How a beam's answer compares with that of greedy search."""
    if width == 1:
        return "Greedy search is a beam of 1"
    if answer is greedy:
        return f"A beam of {width} answers as greedy search does"
    more = "likelier" if answer.log_p > greedy.log_p else "less likely"
    return f"A beam of {width} finds a {more} sentence than greedy search"


def _said(node):
    """A sentence and its log P, in words."""
    return f"{' '.join(each.token for each in node.path())}, log P = {signed(f'{node.log_p:.2f}')}"

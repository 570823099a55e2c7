"""Pictures of five things, twelve by twelve, to be remembered whole and shown torn."""

import torch

KEY = """
...######...
..##....##..
..##....##..
..##....##..
...######...
.....##.....
.....##.....
.....#####..
.....##.....
.....######.
.....##.....
.....#####..
"""
RING = """
...######...
.##########.
.###....###.
###......###
##........##
##........##
##........##
##........##
###......###
.###....###.
.##########.
...######...
"""
CUP = """
............
..#.#.#.....
...#.#.#....
#########...
############
#########.##
#########.##
#########.##
############
#########...
.#######....
############
"""
MAP = """
############
#..........#
#.##...###.#
#.##...###.#
#......##..#
#..#.......#
#.###..#...#
#..##.###..#
#......##..#
#.#........#
#..........#
############
"""
LAMP = """
...######...
..########..
..########..
.##########.
.##########.
############
.....##.....
.....##.....
.....##.....
.....##.....
...######...
..########..
"""
PICTURES = {"key": KEY, "ring": RING, "cup": CUP, "map": MAP, "lamp": LAMP}
SIDE = 12


def pictures():
    """The five pictures as rows (5, 144): 1 where a picture is dark, and −1 elsewhere."""
    rows = [picture.replace("\n", "") for picture in PICTURES.values()]
    dark = torch.tensor([[pixel == "#" for pixel in row] for row in rows])
    return 2 * dark.to(torch.get_default_dtype()) - 1


def torn(x):
    """Pictures (..., 144) without their lower halves: there they are 0, which says nothing."""
    return torch.cat([x[..., : x.shape[-1] // 2], torch.zeros_like(x[..., x.shape[-1] // 2 :])], dim=-1)

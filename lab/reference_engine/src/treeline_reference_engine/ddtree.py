"""DDTree: the best draft tree of a given size from per-position marginals (arXiv 2604.12989).

The drafter gives, for each of L = block_size - 1 positions, its candidates with log probabilities, best
first. Positions are independent, so the score of a node is the sum of its path's log probabilities: the
(log) probability that the whole path is accepted under the drafter. Popping the B best prefixes from a heap
gives the tree with the largest expected acceptance among all trees of B nodes (propositions 1 to 3 there).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# One position: (token, log probability), best first.
Marginal = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class DraftTree:
    """A draft tree in insertion order; node 0 is the root (the last verified token).

    ``tokens[i]``, ``parents[i]``, ``depths[i]`` and ``scores[i]`` describe node ``i``; parents come before
    their children. ``children[i]`` maps a token to the node that carries it below ``i``.
    """

    tokens: list[int]
    parents: list[int]
    depths: list[int]
    scores: list[float]
    children: list[dict[int, int]]

    @property
    def size(self) -> int:
        """Number of draft nodes, the root excluded."""
        return len(self.tokens) - 1

    def expected_acceptance(self) -> float:
        """Expected number of accepted draft tokens, bonus excluded: the sum of the prefix probabilities."""
        return sum(math.exp(score) for score in self.scores[1:])


def build_tree(marginals: Sequence[Marginal], budget: int, topk: int) -> DraftTree:
    """The ``budget`` most probable prefixes over ``marginals``, using the best ``topk`` of each position.

    Depth is at most ``len(marginals)``. Fewer nodes come back when there are no more prefixes. Ties go to the
    smaller rank tuple, so the result does not depend on the heap's history.
    """
    tree = DraftTree([-1], [-1], [0], [0.0], [{}])
    ranked = [position[:topk] for position in marginals]
    if budget <= 0 or not ranked or not ranked[0]:
        return tree
    depth_limit = len(ranked)
    # (-score, ranks from the first position on, parent node)
    heap: list[tuple[float, tuple[int, ...], int]] = [(-ranked[0][0][1], (0,), 0)]
    while heap and tree.size < budget:
        negative, ranks, parent = heapq.heappop(heap)
        score, depth, rank = -negative, len(ranks), ranks[-1]
        position = ranked[depth - 1]
        token, log_q = position[rank]
        node = len(tree.tokens)
        tree.tokens.append(token)
        tree.parents.append(parent)
        tree.depths.append(depth)
        tree.scores.append(score)
        tree.children.append({})
        tree.children[parent][token] = node
        if rank + 1 < len(position):
            sibling = score - log_q + position[rank + 1][1]
            heapq.heappush(heap, (-sibling, (*ranks[:-1], rank + 1), parent))
        if depth < depth_limit and ranked[depth]:
            heapq.heappush(heap, (-(score + ranked[depth][0][1]), (*ranks, 0), node))
    return tree


def verify(tree: DraftTree, choose: Callable[[list[int]], int]) -> list[int]:
    """Walk ``tree`` with the target's choices; returns the accepted tokens and the bonus token.

    ``choose(accepted)`` is the target's next token after the context and ``accepted``. The length of the
    result is the acceptance of this step: 1 (only the bonus) to depth + 1.
    """
    accepted: list[int] = []
    node = 0
    while True:
        token = choose(accepted)
        accepted.append(token)
        child = tree.children[node].get(token)
        if child is None:
            return accepted
        node = child

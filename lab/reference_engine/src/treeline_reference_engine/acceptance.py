"""Acceptance length against budget and topk: python -m treeline_reference_engine.acceptance --model-path DIR.

Greedy decoding does not depend on the tree, so each prompt is continued once and every tree shape walks the
same text. Printed are AL = tokens / verify calls with the half width of its 95 % interval, bootstrapped over
prompts, and what was to be expected: topk 1 gains nothing beyond the depth limit, wide trees do, and nothing
decreases by more than the interval of the (paired) difference. Exit status 1 when that does not hold.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .ddtree import verify
from .drafter import Drafter
from .follow import Cursor, Reader
from .model import NgramModel

_PROMPT_TOKENS = 64
_RESAMPLES = 2000
_Z = 1.96
_Counts = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """One tree shape: tokens and verify calls per prompt, in the order of the prompts."""

    budget: int
    topk: int
    tokens: _Counts
    calls: _Counts

    @property
    def length(self) -> float:
        """Acceptance length over all prompts."""
        return float(self.tokens.sum() / self.calls.sum())


class Texts:
    """Prompts cut out of the model's text, with the model's own greedy continuation of each."""

    def __init__(self, model: NgramModel, prompts: int, tokens: int, seed: int) -> None:
        reader, text = Reader(model), model.index.tokens.tolist()
        starts = np.random.default_rng(seed).integers(0, len(text) - _PROMPT_TOKENS, prompts)
        self.prompts: list[list[int]] = []
        self.answers: list[list[int]] = []
        for start in starts.tolist():
            prompt = text[start : start + _PROMPT_TOKENS]
            whole, cursor = list(prompt), Cursor()
            for _ in range(tokens):
                whole.append(reader.next(whole, [], cursor))
            self.prompts.append(prompt)
            self.answers.append(whole[_PROMPT_TOKENS:])


def measure(model: NgramModel, texts: Texts, block_size: int, budget: int, topk: int) -> Point:
    """Walk every answer with trees of one shape; the first token is the prefill's."""
    drafter = Drafter(model, block_size, budget, topk)
    tokens, calls = [], []
    for prompt, answer in zip(texts.prompts, texts.answers, strict=True):
        done, steps = 1, 0
        while done < len(answer):
            context = (prompt + answer[:done])[-8:]
            rest = answer[done:]
            taken = verify(drafter.tree(context), lambda accepted, rest=rest: _next(rest, accepted))  # type: ignore[misc]
            done += min(len(taken), len(rest))
            steps += 1
        tokens.append(len(answer))
        calls.append(steps)
    return Point(budget, topk, np.array(tokens, dtype=float), np.array(calls, dtype=float))


def _next(rest: list[int], accepted: list[int]) -> int:
    # Behind the end of the answer no draft is right.
    return rest[len(accepted)] if len(accepted) < len(rest) else -1


class Bootstrap:
    """Resamples of the prompts, the same for every point, so that differences are paired."""

    def __init__(self, prompts: int, seed: int) -> None:
        draws = np.random.default_rng(seed).integers(0, prompts, (_RESAMPLES, prompts))
        self._weights = np.stack([np.bincount(row, minlength=prompts) for row in draws]).astype(float)

    def lengths(self, point: Point) -> _Counts:
        """Acceptance length of each resample."""
        ratio: _Counts = (self._weights @ point.tokens) / (self._weights @ point.calls)
        return ratio

    def half_width(self, point: Point, against: Point | None = None) -> float:
        """Half of the 95 % interval of a point, or of its difference from another."""
        values = self.lengths(point) - (0.0 if against is None else self.lengths(against))
        return _Z * float(values.std())


def findings(
    points: dict[tuple[int, int], Point], bootstrap: Bootstrap, depth: int
) -> list[tuple[bool, str]]:
    """(whether it holds, what was looked at)."""
    budgets, topks = sorted({b for b, _ in points}), sorted({k for _, k in points})
    out: list[tuple[bool, str]] = []
    beyond = [points[b, 1] for b in budgets if (b, 1) in points and b >= depth]
    if len(beyond) > 1:
        flat = all(point.length == beyond[0].length for point in beyond)
        out.append((flat, f"topk 1 is flat from budget {beyond[0].budget} on (depth limit {depth})"))
    widest, narrow = (budgets[-1], topks[-1]), (budgets[-1], topks[0])
    if widest != narrow and budgets[-1] > depth:
        gain = points[widest].length - points[narrow].length
        width = bootstrap.half_width(points[widest], points[narrow])
        text = f"budget {widest[0]}: topk {widest[1]} gains {gain:+.3f} ± {width:.3f} over topk {narrow[1]}"
        out.append((gain > width, text))
    pairs = [((b, k), (c, k)) for k in topks for b, c in itertools.pairwise(budgets)]
    pairs += [((b, k), (b, m)) for b in budgets for k, m in itertools.pairwise(topks)]
    falls = []
    for low, high in pairs:
        change = points[high].length - points[low].length
        width = bootstrap.half_width(points[high], points[low])
        if change < -width:
            falls.append(f"{low} to {high}: {change:+.3f} ± {width:.3f}")
    text = f"{len(pairs)} steps along budget and topk, decreases beyond the interval of the difference: "
    out.append((not falls, text + (", ".join(falls) or "none")))
    return out


def numbers(text: str) -> list[int]:
    """A comma list of whole numbers from 1 on. Raises ValueError."""
    out = sorted({int(word) for word in text.split(",")})
    if not out or out[0] < 1:
        raise ValueError(f"{text!r}: whole numbers from 1 on are expected")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m treeline_reference_engine.acceptance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model-path", type=Path, required=True, help="folder of a trained model")
    parser.add_argument("--budgets", type=numbers, default=[1, 2, 4, 7, 8, 16, 32, 64])
    parser.add_argument("--topk", type=numbers, default=[1, 2, 4, 8])
    parser.add_argument("--block-size", type=int, default=8)
    parser.add_argument("--prompts", type=int, default=96)
    parser.add_argument("--tokens", type=int, default=96, help="tokens of each answer")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    try:
        model = NgramModel.load(args.model_path)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    texts = Texts(model, args.prompts, args.tokens, args.seed)
    points: dict[tuple[int, int], Point] = {}
    bootstrap = Bootstrap(args.prompts, args.seed)
    print(
        f"Acceptance length, greedy, block size {args.block_size}, {args.prompts} prompts x {args.tokens} "
        "tokens; ± is half of the 95 % interval over prompts"
    )
    print("  topk \\ budget " + "".join(f"{budget:>14d}" for budget in args.budgets))
    for topk in args.topk:
        cells = []
        for budget in args.budgets:
            point = points[budget, topk] = measure(model, texts, args.block_size, budget, topk)
            cells.append(f"{point.length:7.3f} ±{bootstrap.half_width(point):.3f}")
        print(f"  {topk:13d} " + "".join(f"{cell:>14s}" for cell in cells), flush=True)
    return report(findings(points, bootstrap, args.block_size - 1))


def report(found: list[tuple[bool, Any]]) -> int:
    """Print the findings; 0 when all hold."""
    for holds, text in found:
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {text}")
    return 0 if all(holds for holds, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())

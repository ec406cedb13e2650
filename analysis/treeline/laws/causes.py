"""Each failure class for itself: what it depends on, and where its limit lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treeline.laws.compare import Judged, conclusion, judge
from treeline.laws.observe import Observation
from treeline.laws.pairs import Pair, matched_pairs
from treeline.laws.threshold import LAWS, Law

SINGLE = tuple(law for law in LAWS if len(law.features) == 1)


@dataclass(frozen=True)
class ClassLaw:
    """One failure class against the cells that work.

    Cells that died of something else are left out: whatever killed them came first, so they say nothing
    about this class.

    Attributes:
        cells: how many cells died of it.
        judged: the laws on it, the product threshold first.
        pairs: per parameter, pairs that differ in it alone.
    """

    cause: str
    cells: int
    judged: tuple[Judged, ...]
    pairs: dict[str, list[Pair]]

    @property
    def product(self) -> Judged:
        """The product threshold on this class alone."""
        return self.judged[0]

    @property
    def depends_on(self) -> str:
        """What the class depends on, as far as the cells show it."""
        shown = [name for name, pairs in self.pairs.items() if pairs]
        refuted = [one.law.features[0] for one in self.judged if one.verdict == "refuted"]
        words = []
        if shown:
            told = ", ".join(f"{name} ({_pair(name, self.pairs[name][0])})" for name in shown)
            words.append(f"shown by cells that differ in nothing else: {told}")
        else:
            words.append("no two cells differ in one parameter alone, so none is shown to matter by itself")
        if refuted:
            words.append(f"a threshold on {' or '.join(refuted)} alone is refuted")
        return "; ".join(words)

    @property
    def text(self) -> str:
        """What is known of the class in one sentence."""
        product = self.product
        if product.verdict == "refuted":
            return f"{self.cause}: {product.text}"
        if product.fit.brackets[0].bounded:
            basis = {"holds": "", "not refuted": ", not shown"}.get(
                product.verdict, ", too little data to show it"
            )
            said = f"consistent with a product threshold, with its limit in {product.brackets}{basis}"
            return f"{self.cause}: {said}"
        return f"{self.cause}: {conclusion([product])}"


def by_class(observations: Sequence[Observation], laws: Sequence[Law] = SINGLE) -> list[ClassLaw]:
    """Judge every failure class by itself, the most frequent first."""
    alive = [cell for cell in observations if not cell.dead]
    causes: dict[str, list[Observation]] = {}
    for cell in observations:
        if cell.dead and cell.cause:
            causes.setdefault(cell.cause, []).append(cell)
    found = []
    for cause, dead in sorted(causes.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        cells = [*dead, *alive]
        found.append(
            ClassLaw(cause, len(dead), tuple(judge(law, cells) for law in laws), matched_pairs(cells))
        )
    return found


def _pair(name: str, pair: Pair) -> str:
    if name == "graphs":
        words = {True: "on", False: "off"}
        return f"{words[pair.dies.graphs]} dies, {words[pair.lives.graphs]} lives"
    return pair.text(name)

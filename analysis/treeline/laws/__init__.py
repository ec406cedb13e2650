"""What a sweep says about the open questions: what failures depend on, what budgets bought, what to do next.

Laws are simple on purpose (thresholds, and unions of two) and are judged by what they get wrong, on the cells
they were fitted to and on each cell held out in turn. Where the data cannot tell, that is the answer.
"""

from treeline.laws.causes import ClassLaw, by_class
from treeline.laws.compare import Judged, judge, judge_all
from treeline.laws.observe import Observation, observations
from treeline.laws.pairs import Pair, matched_pairs
from treeline.laws.threshold import LAWS, Fit, Law, fit

__all__ = [
    "LAWS",
    "ClassLaw",
    "Fit",
    "Judged",
    "Law",
    "Observation",
    "Pair",
    "by_class",
    "fit",
    "judge",
    "judge_all",
    "matched_pairs",
    "observations",
]

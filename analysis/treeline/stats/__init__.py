"""Statistics of measurements: intervals, comparisons between restart keys, drift, rankings.

The unit of comparison between restart keys is the service life. Repeats inside one life tell about noise
inside it, and nothing about the next life; so one life each shows no difference, however many repeats it had.
"""

from treeline.stats.compare import Comparison, compare
from treeline.stats.drift import Drift, drift
from treeline.stats.exact import clopper_pearson, sign_test
from treeline.stats.intervals import Interval, mean_interval, ratio_of_sums_interval
from treeline.stats.ranking import Ranking, rank

__all__ = [
    "Comparison",
    "Drift",
    "Interval",
    "Ranking",
    "clopper_pearson",
    "compare",
    "drift",
    "mean_interval",
    "rank",
    "ratio_of_sums_interval",
    "sign_test",
]

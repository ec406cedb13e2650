"""Understand what a user asks for: from loose variables to a checked plan with its forecast.

`understand(variables, Surroundings(...))` is the door. It returns an `Outcome` or raises `RequestError`,
which names every variable that is wrong, its value, where it came from and what is allowed.
"""

from treeline.request.build import DEFAULT_ROWS_PRIOR, Outcome, Surroundings, axes_of, understand
from treeline.request.forecast import Rates, count, forecast_lines
from treeline.request.problems import Problem, RequestError
from treeline.request.reader import Options

__all__ = [
    "DEFAULT_ROWS_PRIOR",
    "Options",
    "Outcome",
    "Problem",
    "Rates",
    "RequestError",
    "Surroundings",
    "axes_of",
    "count",
    "forecast_lines",
    "understand",
]

"""Property tests draw the same examples in every run, so that a red run is red again.

`pytest --hypothesis-profile=explore` draws new ones.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("explore", derandomize=False)
settings.register_profile("same", derandomize=True)
settings.load_profile("same")

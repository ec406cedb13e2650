# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Findings
#
# The open questions, answered from the data as far as they answer them.
#
# `RESULTS_DIR` names a folder of sweeps, or one sweep (default: `results`).

# %%
import os

from treeline.frames.results import read
from treeline.report import views

results = read(os.environ.get("RESULTS_DIR", "results"))
views.overview(results)

# %% [markdown]
# What do failures depend on? Laws are thresholds and unions of two. Each is fitted to all cells and to
# all but one in turn; a pair of cells that no threshold explains refutes it.

# %%
found = views.findings(results)
views.answers(found)

# %%
views.laws(found)

# %% [markdown]
# Each failure class for itself, against the cells that work.

# %%
views.classes(found)

# %% [markdown]
# What did each larger budget buy? Differences are shown by service lives only.

# %%
views.bought(found)

# %% [markdown]
# What should be deployed?

# %%
views.deploy(found)

# %% [markdown]
# What should be measured next?

# %%
views.ahead(found)

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
# # Frontier
#
# Where the draft tree stops working: measured, implied, and not known.
#
# `RESULTS_DIR` names a folder of sweeps, or one sweep (default: `results`).

# %%
import os

from treeline.frames.results import read
from treeline.report import views

results = read(os.environ.get("RESULTS_DIR", "results"))
views.overview(results)

# %% [markdown]
# Blue cells work; other colours are failure classes. Hatched cells follow from others and were not
# measured; blank ones are not known. The dashed line is the rows prior, which orders a search and forbids
# nothing.

# %%
views.frontier(results)

# %% [markdown]
# The same with the highest output tok/s in the cells that work.

# %%
views.frontier(results, text="tok_s")

# %% [markdown]
# Every cell, and why it is taken for what it is.

# %%
views.cells(results)

# %% [markdown]
# How far implied cells can be trusted.

# %%
views.audit(results)

# %% [markdown]
# What the restarts bought.

# %%
views.search_course(results)

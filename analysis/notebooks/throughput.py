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
# # Throughput
#
# What the service gives, under which load, and what it cost to find out.
#
# `RESULTS_DIR` names a folder of sweeps, or one sweep (default: `results`).

# %%
import os

from treeline.frames.results import read
from treeline.report import views

results = read(os.environ.get("RESULTS_DIR", "results"))
views.overview(results)

# %% [markdown]
# Each point is a configuration at a concurrency (c). No point beyond the steps was measured; what failed
# stands beside.

# %%
views.pareto(results)

# %%
views.goodput(results)

# %% [markdown]
# Latencies of single requests, exact quantiles.

# %%
views.requests(results)

# %% [markdown]
# The anchor configuration over time: figures that lie apart in time are only comparable where it stayed.

# %%
views.anchor_drift(results)

# %%
views.time_budget(results)

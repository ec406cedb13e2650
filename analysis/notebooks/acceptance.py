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
# # Acceptance
#
# What a larger budget does to the acceptance length (AL), and what that is worth.
#
# `RESULTS_DIR` names a folder of sweeps, or one sweep (default: `results`).

# %%
import os

from treeline.frames.results import read
from treeline.report import views

results = read(os.environ.get("RESULTS_DIR", "results"))
views.overview(results)

# %% [markdown]
# AL rises and levels off; throughput has its highest point earlier. Bars are 95 % intervals over service
# lives; a single life has none.

# %%
views.acceptance(results)

# %%
views.acceptance_table(results)

# %% [markdown]
# How sure the AL of a single life is: bootstrap intervals over its requests. They tell about noise inside
# that life and nothing about the next one.

# %%
views.acceptance_within_lives(results)

# %% [markdown]
# AL depends on the texts and not on how many requests run: within a life it should differ by 0.15 at
# most between concurrencies. A larger spread speaks for a bug.

# %%
views.over_concurrency(results)

# %% [markdown]
# Which draft positions are accepted: a tail that is never accepted is paid for in every step.

# %%
views.per_position(results)

# %% [markdown]
# What a verify step costs and what it yields. A jump upwards without a step to the right is a cliff.

# %%
views.step_time(results)

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
# # Failures
#
# What trials died of. A failed trial is a row like any other.
#
# `RESULTS_DIR` names a folder of sweeps, or one sweep (default: `results`).

# %%
import os

from treeline.frames.results import read
from treeline.report import views

results = read(os.environ.get("RESULTS_DIR", "results"))
views.overview(results)

# %%
views.failure_classes(results)

# %% [markdown]
# Every failed trial with its first error and what to try. The whole journal stands in its evidence
# folder.

# %%
views.failed_trials(results)

# %% [markdown]
# Ansible tasks that failed or were retried. They decide nothing about trials.

# %%
views.failed_tasks(results)

# Two commands matter: `make sweep` shows the whole thing on a lab host, `make test` proves it.
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
export PATH := $(CURDIR)/$(BIN):$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
LAB := $(SUDO) $(CURDIR)/$(BIN)/treeline-lab

help: ## this text
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# -- setting up ----------------------------------------------------------------------------------------
$(VENV)/.base: pyproject.toml requirements.lock lab/reference_engine/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Treeline needs Python 3.11 or newer; $(PYTHON) is %d.%d. Try: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "The module venv is missing: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable . --editable lab/reference_engine 'setuptools>=77'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable '.[dev]'
	@touch $@

setup: $(VENV)/.base ## install Treeline into .venv

lab-requirements: $(VENV)/.base
	$(LAB) requirements --install

lab-rootfs: lab-requirements
	$(LAB) rootfs

# -- the lab -------------------------------------------------------------------------------------------
lab: lab-requirements ## boot the lab host of inventory/lab
	ansible-playbook lab.yml -e lab_state=up

lab-down: $(VENV)/.base ## take the lab down
	ansible-playbook lab.yml -e lab_state=down

lab-status: $(VENV)/.base
	ansible-playbook lab.yml -e lab_state=status

# -- the whole path ------------------------------------------------------------------------------------
sweep: lab ## boot the lab, deploy, sweep the field notes' seven configurations, report
	ansible-playbook deploy.yml -e treeline_deploy_over_rollout=true
	ansible-playbook sweep.yml -e points=playbooks/plans/field-notes.yml
	@echo
	@echo "The production service (budget 8) is serving again on the lab host. To go on:"
	@echo "  one configuration     .venv/bin/ansible-playbook sweep.yml -e budget=32"
	@echo "  a grid                .venv/bin/ansible-playbook sweep.yml -e budget=8,16 -e maxreq=64,128"
	@echo "  the report once more  .venv/bin/treeline report"
	@echo "  take the lab down     make lab-down"

report: $(VENV)/.base ## write the newest sweep's report once more: table, summary.md, report.html
	treeline report

# -- tests ---------------------------------------------------------------------------------------------
test: ## lint, types, unit, lab, playbook and role tests
# Each of these keeps one core busy.
	$(MAKE) --jobs=2 --output-sync=target --keep-going types lab-rootfs
	$(MAKE) unit
# Tests on hosts mostly wait, so two streams share two cores, each with labs of its own; lint takes what they leave.
	$(MAKE) --jobs=3 --output-sync=target --keep-going playbook-tests role-and-lab-tests patient-lint

patient-lint:
	nice -n 15 $(MAKE) lint

role-and-lab-tests:
	$(MAKE) --keep-going lab-tests fault-tests molecule

lint: $(VENV)/.dev
	ruff check .
	ruff format --check .
	yamllint --strict .
	ansible-lint --offline --strict

types: $(VENV)/.dev
	mypy

unit: $(VENV)/.dev
	pytest tests/unit tests/notebooks --numprocesses 2 --dist loadfile --durations=25

lab-tests: $(VENV)/.dev lab-requirements
	$(SUDO) env PATH="$$PATH" $(BIN)/pytest tests/lab -m "not long" --durations=12

# These run in the other stream, so that both take about as long.
FAULTS := tests/playbook/test_fault_profiles.py tests/playbook/test_node_faults.py

playbook-tests: $(VENV)/.dev lab-requirements
	$(SUDO) env PATH="$$PATH" $(BIN)/pytest tests/playbook -m "not long" --durations=12 $(FAULTS:%=--ignore=%)

fault-tests: $(VENV)/.dev lab-requirements
	$(SUDO) env PATH="$$PATH" $(BIN)/pytest $(FAULTS) -m "not long" --durations=12

molecule: $(VENV)/.dev lab-requirements
	cd roles/sglang_ddtree && molecule test --all

# -- too long for every run ----------------------------------------------------------------------------
# One after the other, each within half an hour; what one call leaves undone, the next call of the same target does.
LONG := long-analysis long-lab long-profiles long-rollout long-rollout-faults long-kills long-host-faults long-disks long-clock long-hosts-grid long-hosts-frontier long-trials
# sudo forgets the environment; the settings of these tests come along by name.
LONG_SETTINGS := $(filter TREELINE_LONG_%,$(.VARIABLES))
LONG_PYTEST = $(SUDO) env PATH="$$PATH" $(foreach name,$(LONG_SETTINGS),$(name)='$($(name))') $(BIN)/pytest -m long
ROLLOUT_FAULTS := killed or loses_its_network or reboots or without_its_router or drift

test-long: ## all long-... targets, one after the other (hours)
	$(MAKE) --jobs=1 --keep-going $(LONG)

long-analysis: $(VENV)/.dev ## 1,000,000 measurements in 10 s, 100,000,000 requests in 60 s, in 4 GB
	$(BIN)/python tests/bench/bench_analysis.py --measurements 1000000 --requests 100000000

long-lab: $(VENV)/.dev lab-requirements ## a root file system whose build is killed, a lease whose cable is out
	$(LONG_PYTEST) tests/lab

long-profiles: $(VENV)/.dev lab-requirements ## every fault profile of the reference engine through sweep.yml
	$(LONG_PYTEST) tests/playbook/test_every_profile_long.py

long-rollout: $(VENV)/.dev lab-requirements ## rollouts on eight hosts behind a router, with clients
	$(LONG_PYTEST) -rP tests/playbook/test_rollout.py tests/playbook/test_rollout_long.py -k 'not ($(ROLLOUT_FAULTS))'

long-rollout-faults: $(VENV)/.dev lab-requirements ## the same with a killed controller, lost networks, drift
	$(LONG_PYTEST) tests/playbook/test_rollout_long.py -k '$(ROLLOUT_FAULTS)'

long-kills: $(VENV)/.dev lab-requirements ## kill -9 of the controller at any step (200; call it until none is left)
	$(LONG_PYTEST) tests/long/test_kills.py

long-host-faults: $(VENV)/.dev lab-requirements ## reboot, power loss and link loss of the target in a trial
	$(LONG_PYTEST) tests/long/test_host_faults.py

long-disks: $(VENV)/.dev lab-requirements ## full disks on either side, a journal that forgets
	$(LONG_PYTEST) tests/long/test_disks.py

long-clock: $(VENV)/.dev lab-requirements ## a clock that jumps by two days
	$(LONG_PYTEST) tests/long/test_clock.py

long-hosts-grid: $(VENV)/.dev lab-requirements ## four hosts against one on a grid: wall time, nothing done twice
	$(LONG_PYTEST) tests/long/test_many_hosts.py -k grid

long-hosts-frontier: $(VENV)/.dev lab-requirements ## the same on a frontier of four slices, and of one
	$(LONG_PYTEST) tests/long/test_many_hosts.py -k frontier

long-trials: $(VENV)/.dev lab-requirements ## 250 trials in one command: no growth of the time per trial
	$(LONG_PYTEST) tests/long/test_many_trials.py

# -- figures -------------------------------------------------------------------------------------------
# These boot lab hosts, so they need root.
ROOT_BENCHES := tests/bench/bench_trial_overhead.py tests/bench/bench_rollout_hosts.py

bench: $(VENV)/.dev lab-requirements ## figures of tests/bench: analysis, classifier, engine, frontier, gates, load, rollout, store, trial
	@failed=0; \
	for bench in $(filter-out $(ROOT_BENCHES),$(sort $(wildcard tests/bench/bench_*.py))); do \
		echo "== $$bench"; $(BIN)/python "$$bench" || failed=1; \
	done; \
	for bench in $(ROOT_BENCHES); do \
		echo "== $$bench"; $(SUDO) env PATH="$$PATH" $(BIN)/python "$$bench" || failed=1; \
	done; \
	exit $$failed

.PHONY: help setup lab lab-requirements lab-rootfs lab-down lab-status sweep report test lint types unit role-and-lab-tests patient-lint fault-tests lab-tests playbook-tests molecule test-long $(LONG) bench

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
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

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
test: lint types unit ## lint, types, unit, lab, playbook and role tests
	$(MAKE) lab-requirements
	$(LAB) rootfs
# Tests on hosts mostly wait, so two streams share two cores; each has labs of its own.
	$(MAKE) --jobs=2 --output-sync=target --keep-going playbook-tests role-and-lab-tests

role-and-lab-tests:
	$(MAKE) --keep-going lab-tests fault-and-rollout-tests molecule

lint: $(VENV)/.dev
	ruff check .
	ruff format --check .
	yamllint --strict .
	ansible-lint --offline --strict

types: $(VENV)/.dev
	mypy

unit: $(VENV)/.dev
	pytest tests/unit tests/notebooks --numprocesses 2 --dist loadfile

lab-tests: $(VENV)/.dev lab-requirements
	$(SUDO) env PATH="$$PATH" $(BIN)/pytest tests/lab -m "not long"

# These run in the other stream, so that both take about as long.
FAULT_AND_ROLLOUT := $(wildcard $(addprefix tests/playbook/test_,rollout.py fault_profiles.py node_faults.py))

playbook-tests: $(VENV)/.dev lab-requirements
	$(SUDO) env PATH="$$PATH" $(BIN)/pytest tests/playbook -m "not long" $(FAULT_AND_ROLLOUT:%=--ignore=%)

fault-and-rollout-tests: $(VENV)/.dev lab-requirements
	$(SUDO) env PATH="$$PATH" $(BIN)/pytest $(FAULT_AND_ROLLOUT) -m "not long"

molecule: $(VENV)/.dev lab-requirements
	cd roles/sglang_ddtree && molecule test --all

test-long: $(VENV)/.dev lab-requirements ## what is too long for every run
	$(SUDO) env PATH="$$PATH" $(BIN)/pytest tests/lab tests/playbook tests/long -m long

bench: $(VENV)/.dev ## print speeds and costs: classifier, engine, load client, overhead of a trial
	for bench in tests/bench/bench_*.py; do $(BIN)/python "$$bench"; done

.PHONY: help setup lab lab-requirements lab-down lab-status sweep report test lint types unit role-and-lab-tests fault-and-rollout-tests lab-tests playbook-tests molecule test-long bench

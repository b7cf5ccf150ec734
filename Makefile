# SPDX-License-Identifier: Apache-2.0
# The targets for users; `make` lists them. The work is done in playbooks/ and harness/.
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

BIN := .venv/bin
CAMPAIGN := campaigns/quick
STORE := sqlite:///$(CAMPAIGN)/store.sqlite
# Tests that share a guest stay together, and a test that is skipped has failed.
PYTEST := $(BIN)/pytest -n auto --dist loadgroup --no-skips
# Number of parallel compilers for the kernel.
JOBS ?= $(shell expr $$(nproc) + 1)

USER_ID := $(shell id -u)

# Python and Ansible need UTF-8, and some hosts set no locale.
export LC_ALL := C.UTF-8
export PATH := $(PATH):/usr/sbin:/sbin
# Tests start hundreds of programs in Python. Without its bytecode each one compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1@/p' Makefile | while IFS=@ read -r target text; do \
		printf 'make %-12s %s\n' "$$target" "$$text"; done

lint: $(BIN)/ruff lint-python ## check the sources only
	$(BIN)/pytest -q playbooks/tests/test_lint.py

check: $(BIN)/ruff lint-python ## check the sources and run the tests that need no guest
	$(PYTEST) -q -m "not integration and not slow and not extended"

docs: $(BIN)/ruff ## write the lists in docs/ that follow from the code
	$(BIN)/python harness/tests/tools/lists.py

mutants: $(BIN)/ruff ## measure which part of a sample of mutants the tests without guests catch (half an hour)
	$(BIN)/python harness/tests/tools/mutants.py

scale: $(BIN)/ruff ## measure tables and report of a million generated trials (10 minutes, 4.5 GB; ARGS=--help)
	$(BIN)/python results/tests/tools/scale.py $(ARGS)

$(BIN)/ruff:
	@echo "nothing is set up: run make setup" >&2; exit 1

lint-python:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

publishing: $(BIN)/ruff ## publish a campaign, and check what pages of published ones state (ARGS=--help)
	PYTHONPATH=results $(BIN)/python -m publishing $(ARGS)

kernel-check: $(BIN)/ruff ## build and boot each prefix of the kernel series (hours; goes on; ARGS=--help)
	$(BIN)/python harness/tests/tools/kernel_check.py --jobs $(JOBS) $(ARGS)

TARGETS := setup campaign test test-all clean clean-cache
.PHONY: $(TARGETS) lint lint-python check docs mutants publishing kernel-check scale
.NOTPARALLEL:
ifneq ($(USER_ID),0)

# The toolchain root and the guests need root, so root owns all files.
$(TARGETS):
	@command -v sudo >/dev/null || { echo "make $@ needs root: run it as root or install sudo" >&2; exit 1; }
	@exec sudo --preserve-env=RIOBED_CACHE,XDG_CACHE_HOME,http_proxy,https_proxy,no_proxy make $@ JOBS=$(JOBS)

else

setup: ## install what is needed and build kernel and images (about 14 minutes on 2 cores, then seconds)
	@playbooks/setup -e riobed_jobs=$(JOBS)

campaign: setup ## run harness/specs/quick.yaml and print its corruption table
	@mkdir -p $(CAMPAIGN)
	$(BIN)/riobed run harness/specs/quick.yaml --store $(STORE)
	$(BIN)/riobed table corruption --store $(STORE)
	@echo
	@echo "How to read it: each cell counts the crashes after which a file was wrong. With so few crashes the modes"
	@echo "that keep their data cannot be told apart. Each crash: $(CAMPAIGN)/report.html"

test: setup lint-python ## set up, check the sources, run the tests that each change must pass, with real guests
	$(PYTEST) -m "not extended"

test-all: setup lint-python ## run everything at full length, other kernels and mutants included (hours; goes on)
	$(PYTEST) --everything --go-on .riobed/passed

clean: ## remove everything from the checkout that is neither source nor result
	rm -rf .venv .riobed .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

clean-cache: setup ## remove from the cache what this checkout does not use
	PYTHONPATH=harness:results $(BIN)/python -m riobed.products prune

endif

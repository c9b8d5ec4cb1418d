# Everything on a machine with Python 3.11+, make and nothing else: each target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt
# Steps into one environment, so that nobody waits for what is not needed: nothing compiles what it does not import, and
# a layer of the tests installs what it alone needs. A stamp in the environment stands for each step.
LIGHT := $(VENV)/.installed-light
QUICK := $(VENV)/.installed-test
SERVERS := $(VENV)/.installed-test-servers
ENGINES := $(VENV)/.installed-test-engines
BROWSER := $(VENV)/.installed-test-browser
STAMP := $(VENV)/.installed-dev
SITE := $(VENV)/.installed-docs
# What is imported is compiled once, also where the environment says otherwise: the tests start many processes, and each
# would compile NumPy and SciPy anew. One thread a process: arrays are small, and threads would wait for each other.
export PYTHONDONTWRITEBYTECODE :=
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help setup demo test test-simulations test-servers test-kills test-mutants test-engines test-browser again quick installs bare sbom lint types bench reproduction correctness estimates drift between forecasts laws counts guardrails tables tolerance closed covariates questions savings theorem peers rewards prices regret mutants chaos screenshots generated docs paper figures links clean

help:            ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## *' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP)  ## create .venv with everything in it (make demo takes less)

$(LIGHT): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Parley needs Python 3.11 or newer, found " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@touch $(LIGHT)

# Two processes run the tests, and each would compile all that both import. So it is compiled once, most of it while pip
# still downloads the rest.
COMPILE := $(BIN)/python -m compileall -qq -x '/tests/' $(VENV)/lib
$(QUICK): $(LIGHT)
	@$(COMPILE) & $(PIP) --editable '.[test,lint]' && wait
	@$(COMPILE) -j 2 || true  # a package may bring files for another version of Python
	@touch $(QUICK)

$(SERVERS) $(ENGINES) $(BROWSER): $(QUICK)
	$(PIP) --editable '.[$(@:$(VENV)/.installed-%=%)]'
	@touch $@

$(STAMP): $(SERVERS) $(ENGINES) $(BROWSER)
	$(PIP) --editable '.[dev]'
	@touch $(STAMP)

$(SITE): $(LIGHT)
	$(PIP) --editable '.[docs]'
	@touch $(SITE)

demo: $(LIGHT)   ## the main job, end to end, on the paper's instance; writes an HTML report
	$(BIN)/parley demo

# The layers of the tests are markers in pyproject.toml; together these targets run every test, and .ci/run runs them all.
LAYERS := simulations servers kills mutants engines browser
RULES := not simulations and not servers and not kills and not mutants and not engines and not browser
PYTEST := $(BIN)/pytest --numprocesses 2 --dist worksteal --durations 20

test: $(QUICK)   ## linters, types, import directions, doctests and every quick test (minutes)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@# Types beside the tests, on what they leave of two cores: a minute where nothing is cached. What is said comes last.
	@$(MAKE) --no-print-directory types > $(VENV)/.types 2>&1 & types=$$!; \
	$(PYTEST) -m "$(RULES)"; rules=$$?; wait $$types; types=$$?; cat $(VENV)/.types; exit $$((rules || types))

test-simulations: $(QUICK) ## studies by the hundred: errors at ties, plans, tables of the paper, random walks
test-servers: $(SERVERS) ## real server processes, PostgreSQL too, hostile connections, whole trials over HTTP
test-kills: $(SERVERS) ## processes killed at every point, power loss, restarts of PostgreSQL
test-mutants: $(SERVERS) ## changed copies of the product: broken ones are caught, those made by a recipe of CONTRIBUTING work
test-engines: $(ENGINES) ## sweeps on pools of processes, Dask and Ray, with workers killed
test-browser: $(BROWSER) ## the pages in Chromium
# A test of two layers runs once, where the packages of both are installed.
$(LAYERS:%=test-%): ONLY = $(@:test-%=%)
test-simulations: ONLY = simulations and not servers and not engines
test-servers: ONLY = servers and not kills
$(LAYERS:%=test-%):
	$(PYTEST) -m "$(ONLY)" tests

# What needed a second try is noted: .ci/run names it in its last lines, so that it is mended.
SECOND := $(VENV)/.second-try
again: $(QUICK)  ## the tests of a layer that failed in its last run, one by one: make again LAYER=browser
	$(BIN)/python -m tools.second_try $(SECOND)
	$(BIN)/pytest --last-failed --last-failed-no-failures none --randomly-dont-reorganize -m $(LAYER) tests

quick: $(QUICK)  ## the quick tests of one room: make quick ROOM=policies
	@test -n "$(ROOM)" || { echo "which room? make quick ROOM=policies"; exit 2; }
	$(BIN)/ruff check
	$(BIN)/pytest -q -m "$(RULES)" $(or $(wildcard tests/$(ROOM) tests/test_$(ROOM).py src/parley/$(ROOM) src/parley/$(ROOM).py),$(error no room $(ROOM): a folder or module of src/parley or tests, such as policies, dashboard/pages or study))

installs: $(SERVERS) ## wheel, sdist and every extra, each tried in a fresh environment
	$(BIN)/python -m tools.packaging.installs

bare: $(QUICK)      ## numeric and protocol tests as on a machine without a server's packages
	$(BIN)/python -m tools.packaging.without_server

sbom: $(SERVERS) ## wheel, sdist and the CycloneDX list of what users install, into dist
	$(BIN)/python -m tools.packaging.sbom

lint: $(QUICK)      ## the linters alone
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@$(MAKE) --no-print-directory types

types: $(QUICK)     ## types and import directions alone
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup     ## speed, as ratios in one run; rewrites docs/appendix/benchmarks.md
	$(BIN)/python -m benchmarks

reproduction: setup  ## the paper's tables again, into docs/reproduction and its page (minutes)
	$(BIN)/parley reproduce all --out build/reproduction
	$(BIN)/python -m benchmarks.reproduction_page

correctness: setup  ## errors at ties, counted, and tilted down to 1e-10 (an hour; goes on where it stopped); rewrites docs/appendix/delta-correctness.md
	$(BIN)/python -m tools.correctness ties
	$(BIN)/python -m tools.correctness counts

estimates: setup ## how often intervals hold and how wide they are (minutes); rewrites part of docs/appendix/estimates.md
	$(BIN)/python -m tools.correctness coverage

laws: setup  ## errors where rewards are skewed or heavy-tailed (minutes); rewrites part of docs/appendix/rewards.md
	$(BIN)/python -m tools.correctness laws

guardrails: setup  ## guardrails: false alarms, counted and tilted, and how soon harm is found (half an hour; goes on where it stopped); rewrites part of docs/outcomes.md
	$(BIN)/python -m tools.correctness guardrails

counts: setup  ## counts of events: errors at ties, cost, over-dispersion (an hour; goes on where it stopped); rewrites part of docs/appendix/rewards.md
	$(BIN)/python -m tools.correctness counts

tables: setup    ## tables of people: errors on skewed money and many zeros, intervals of analyses (minutes); rewrites part of docs/appendix/rewards.md and docs/analysis.md
	$(BIN)/python -m tools.correctness skewed
	$(BIN)/python -m tools.correctness analyses

drift: setup     ## errors when means move between phases (an hour); rewrites part of docs/appendix/drift.md
	$(BIN)/python -m tools.correctness drift

between: setup   ## people assigned between phases: errors, days saved, samples (20 minutes); rewrites part of docs/appendix/between.md
	$(BIN)/python -m tools.correctness between

forecasts: setup ## how often the forecast of a study in progress holds (minutes); rewrites part of docs/dashboard.md
	$(BIN)/python -m tools.correctness forecasts

tolerance: setup ## bad answers at ties and chains, and what a tolerance saves (an hour or two; goes on where it stopped); rewrites part of docs/appendix/tolerance.md
	$(BIN)/python -m tools.correctness tolerance

covariates: setup ## what a covariate saves, and errors at ties (half an hour; goes on where it stopped); rewrites part of docs/covariates.md
	$(BIN)/python -m tools.correctness covariates

closed: setup    ## studies with a tolerance at ties, clear gaps, few rounds, few people (minutes; goes on where it stopped); rewrites part of docs/appendix/tolerance.md
	$(BIN)/python -m tools.correctness closed

questions: setup ## errors of further questions and of weights in doubt, and what they cost (an hour); rewrites part of docs/weights.md
	$(BIN)/python -m tools.correctness questions

savings: setup   ## evidence racing against W-CPE on 200 random instances; rewrites docs/appendix/savings.md
	$(BIN)/python -m tools.correctness savings

theorem: setup   ## samples over the lower bound for delta from 0.1 to 1e-300; rewrites part of docs/appendix/cost-theorem.md
	$(BIN)/python -m tools.correctness theorem

peers: setup     ## Track-and-Stop, LUCB, elimination, batched and federated rules and the paper's policies beside evidence racing (minutes); rewrites docs/appendix/peers.md
	$(BIN)/python -m benchmarks.peers

rewards: setup   ## what every reward model costs; rewrites docs/appendix/reward-figures.md
	$(BIN)/python -m tools.correctness rewards

prices: setup    ## planning by time and money against the fewest draws, on 100 random instances; rewrites part of docs/appendix/prices.md
	$(BIN)/python -m tools.correctness prices

regret: setup    ## regret of play: the paper's instance, growth, ties, nasty and random instances, clicks, speed; rewrites docs/appendix/regret.md
	$(BIN)/python -m benchmarks.regret

mutants: setup   ## flaws in numerics, protocol, site and pages, each noticed by its test (minutes)
	$(BIN)/python -m tools.mutants

chaos: setup     ## the long versions of the coordinator's promises (an hour or two); rewrites docs/appendix/reliability.md
	$(BIN)/python -m tools.chaos

screenshots: setup ## the dashboard's pages as pictures, into docs/images; EVERY=folder: all of them, in every language
	PARLEY_SCREENSHOTS=docs/images $(if $(EVERY),PARLEY_EVERY_PAGE=$(abspath $(EVERY))) $(BIN)/pytest tests/browser/test_screenshots.py tests/browser/test_site_page.py

generated: setup ## every generated part anew: tables of the docs, picture of the protocol, missing golden files
	$(BIN)/python -m tools.generated

docs: $(SITE)    ## the documentation site, into docs/_build/html; every warning is an error
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

paper: $(QUICK)  ## the preprint: its figure, and paper/paper.pdf where pandoc and LaTeX or a browser are
	$(BIN)/python -m tools.paper

figures: $(LIGHT) ## the data behind all figures and tables of the docs in one versioned archive, into dist
	$(BIN)/python -m tools.figures

links: setup     ## every address of another host in the pages, asked once
	$(BIN)/python -m tools.links

clean:           ## remove what was made
	rm -rf $(VENV) build dist docs/_build docs/notebooks docs/images/generated docs/reference/python docs/reference/commands.md docs/reference/http-api.md paper/figures paper/paper.pdf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

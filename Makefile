PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.made
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
DEMO   ?= ./demo

.PHONY: help env demo lint quick test proof outputs fresh pythons constraints torture mutants export readme docs clean bench lab
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## (.*)/make \1|\2/' | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

env: $(STAMP) $(VENV)/spark.jsa ## everything that Python brings, in .venv, and the classes of Spark in one file

$(STAMP): settings.ini setup.py pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed, $$($(PYTHON) --version) was found: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@command -v java >/dev/null || { echo "Java 17 is needed for Spark and no java was found: apt-get install openjdk-17-jre-headless"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is needed: apt-get install python3-venv"; exit 1; }
	$(PIP) --upgrade pip uv
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt --build-constraint constraints.txt --editable '.[all,dev]' || { \
	  echo "uv could not install it; pip, which knows other settings, tries"; PYTHONWARNINGS=ignore::UserWarning $(PIP) --build-constraint constraints.txt --editable '.[all,dev]'; }
	@touch $@

demo: $(STAMP) $(VENV)/spark.jsa ## the whole story: a shop, its files, the lake, the proof
	$(BIN)/dmscdc demo $(DEMO)

# Parts that need nothing of each other run side by side, JOBS at once; each prints what it has to say when it ends. Rooms of spark start it in
# many ways and have a process each. Tests that fetch parts of Spark stay in one process, so that no two write the same cache.
JOBS   ?= 3
PLAIN  := 00_errors.ipynb+shapes.ipynb+01_storage+02_landing+03_capture+06_state
ROOMS  := 05_changes 07_lake 08_load 09_runs 10_history 11_scd2+12_reconcile 13_service+14_doctor+guide 15_stream+16_deploy+17_cli+18_analyst
QUICK  := house+crashes+planning+running+session+shapes+state_dynamodb adversary+asking+aws+cluster+contracts+foreign+formats+histories+jobs+landing+loading+pages+proof+scenarios+stream
LANES  := scenarios+contracts+formats+histories+adversary+aws+cluster+crashes+house+jobs+pages+running+state_dynamodb+stream loading+session+proof+foreign shapes+planning+landing asking
PROOF  := aws+crashes+contracts+scenarios+shapes asking+adversary house jobs+pages+planning proof+loading+landing+foreign cluster+running histories+session+state_dynamodb+stream+formats
# What every format of the lake must do, one Spark each; first those on Spark 3.5, which has an environment of its own.
SECOND := .spark35
SUITE  := tests/contracts/test_tables.py tests/histories/test_histories.py tests/formats
HARD   := not known_to_be_hard# histories that plain Parquet follows in make test, and every format in make torture
LAKES  := $(addprefix 3.5/,hudi hudi-mor parquet) $(addprefix 4.1/,delta iceberg)
# What differs from hudi, or from Parquet on Spark 4.1; make torture runs all.
lakes/3.5/hudi-mor: SUITE := tests/contracts/test_tables.py tests/formats/test_hudi_logs.py
lakes/3.5/hudi-mor: HARD := a_commit_keeps or a_batch_inserts or columns_that_a_batch or logs
lakes/3.5/parquet: SUITE := tests/contracts/test_tables.py
TESTS  := $(QUICK:%=quick/%) rooms/$(PLAIN) rooms/04_spark $(LANES:%=test/%) $(ROOMS:%=rooms/%)
BESIDE := $(MAKE) --no-print-directory --keep-going --output-sync=target --jobs $(JOBS)
parts   = export TIMES=$$(mktemp); $(BESIDE) $(1); code=$$?; echo "the parts of make $@:"; sort -rn $$TIMES; rm -f $$TIMES; exit $$code

# Spark's Java lives for seconds here: compiling well costs more than it gives, and what it loads at its start is kept in one file.
ARCHIVE := $(VENV)/spark.jsa
# Parts of Spark that several parts of proof want are fetched before these begin.
FETCHED := $(VENV)/.fetched
BRIEF    = -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile=$(abspath $(ARCHIVE)) -Xlog:disable
demo test proof torture outputs: export JAVA_TOOL_OPTIONS := $(JAVA_TOOL_OPTIONS) $(BRIEF)

$(ARCHIVE): $(STAMP)
	@JAVA_TOOL_OPTIONS="$(filter-out $(BRIEF),$(JAVA_TOOL_OPTIONS)) -XX:TieredStopAtLevel=1 -XX:+UseSerialGC" \
	  $(BIN)/python -c "from dmscdc.spark.archive import write_archive; write_archive('$@')" || { echo "without it, Java starts as usual"; touch $@; }

test: $(ARCHIVE) ## quick, what needs Spark alone, and every notebook: ten minutes on two cores
	+@$(call parts,$(TESTS))

quick: export JAVA_HOME := /nowhere
quick: $(STAMP) ## what needs no Java: a minute
	+@$(call parts,lint $(QUICK:%=quick/%) rooms/$(PLAIN))

$(FETCHED): $(STAMP) tests/fetched.py
	@$(BIN)/python tests/fetched.py delta iceberg
	@touch $@

proof: $(ARCHIVE) $(FETCHED) ## what needs servers, kernels, browsers, databases or clusters, or kills something: twenty minutes on two cores
	+@$(call parts,$(LAKES:%=lakes/%) $(PROOF:%=proof/%))

lint: $(STAMP) ## ruff, by the rules in pyproject.toml
	@$(BIN)/ruff check --quiet .

quick/% test/% proof/%: $(STAMP)
	.ci/timed $@ $(BIN)/python -m pytest -m "$(@D) and not torture" $(patsubst %,tests/%,$(subst +, ,$*))

lakes/4.1/%: $(FETCHED)
	HISTORIES=$(or $(HISTORIES),1) DMSCDC_FORMAT=$* .ci/timed $@ $(BIN)/python -m pytest -m "not torture" -k "$(HARD)" $(SUITE)

lakes/3.5/%: $(SECOND)/.made
	HISTORIES=$(or $(HISTORIES),1) DMSCDC_FORMAT=$* .ci/timed $@ $(SECOND)/bin/python -m pytest -m "not torture" -k "$(HARD)" $(SUITE)

$(SECOND)/.made: $(STAMP) .ci/spark35
	.ci/spark35 $(BIN)/uv $(SECOND)
	@touch $@

rooms/04_spark: $(STAMP)
	@.ci/timed $@ $(BIN)/python tests/rooms.py --apart notebooks/04_spark

rooms/%: $(STAMP)
	@echo "$*, in one process with one Java"; .ci/timed $@ $(BIN)/python tests/rooms.py $(patsubst %,notebooks/%,$(subst +, ,$*))

# What the cells show is kept with them and compared by make test. Explorations are executed by tests.
rooms/explored: $(STAMP)
	$(BIN)/python -m pytest tests/pages/test_explorations.py tests/jobs/test_notebooks.py -k is_kept

outputs: export OUTPUTS := write
outputs: $(ARCHIVE) ## what the notebooks show, again
	+@$(BESIDE) $(filter rooms/%,$(TESTS)) rooms/explored

fresh: ## test and proof in a new clone with an empty home
	@there=$$(mktemp -d) && trap "rm -rf $$there" EXIT && git clone --quiet . $$there/dmscdc && .ci/fresh make -C $$there/dmscdc $(or $(RUN),test proof)

pythons: $(STAMP) ## a part of the tests on each Python from 3.10 on
	.ci/pythons $(BIN)/uv 3.10 3.13

constraints: $(STAMP) ## the versions that all of them install, again
	@echo "# What make env installs, on Python 3.10 and later; as the package index was on $$(date -u +%FT%TZ). Made by make constraints." > constraints.new
	printf 'pip\nsetuptools\nwheel\n' | $(BIN)/uv pip compile setup.py - --all-extras --universal --python-version 3.10 --no-header --no-annotate --quiet >> constraints.new
	@mv constraints.new constraints.txt

torture: $(ARCHIVE) ## everything, every kill point, 200 random histories, 50 random tables, with the seeds of the day: hours
	HISTORIES=$(or $(HISTORIES),200) HISTORY_SEED=$(or $(HISTORY_SEED),today) CRASH_SEED=$(or $(CRASH_SEED),today) ADVERSARY_SEED=$(or $(ADVERSARY_SEED),today) $(BIN)/python -m pytest -m "torture or not torture" -s tests
	$(MAKE) --no-print-directory $(LAKES:%=lakes/%) HISTORIES=$(or $(HISTORIES),10) HARD= SUITE="$(SUITE)"

mutants: $(STAMP) ## breaks that tests must notice, of modules changed since SINCE=COMMIT (tests/mutants.md)
	$(BIN)/python tests/mutants.py --jobs $(JOBS) $(if $(SINCE),--since $(SINCE)) $(WHICH)

export: $(STAMP) ## modules from notebooks
	$(BIN)/nbdev_export
	$(BIN)/nbdev_clean

# Sphinx and its theme pin other versions of what notebooks need, so they lie apart; a page that does not read well is an error.
SITE   := .cache/site
$(SITE)/.made: $(STAMP) notebooks/pages/site.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --target $(SITE)/packages -r notebooks/pages/site.txt
	@touch $@

docs: $(SITE)/.made ## guide, pages, notebooks and the interface as a site, site/html/site.html, which needs no network
	@PYTHONPATH=$(SITE)/packages $(BIN)/python -m sphinx -W --keep-going -q -j 2 -b html notebooks $(or $(OUT),site/html)

readme: $(STAMP) ## README.md from notebooks/index.ipynb
	$(BIN)/jupyter nbconvert --to markdown --log-level=ERROR --output-dir . --output README notebooks/index.ipynb

lab: $(STAMP) ## JupyterLab over the notebooks
	$(BIN)/jupyter lab notebooks

bench: $(STAMP) ## the loads beside the usual recipe, as ratios
	$(BIN)/python bench/run.py

clean: ## remove what make has made
	rm -rf $(VENV) .pythons $(SECOND) $(SITE) site build dist *.egg-info demo .bench

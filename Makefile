PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BASE   := $(VENV)/.base
STAMP  := $(VENV)/.made
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
DEMO   ?= ./demo
,      := ,
install = $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt --build-constraint constraints.txt --editable '.[$(1)]' || { \
	  echo "uv could not install it; pip, which knows other settings, tries"; PYTHONWARNINGS=ignore::UserWarning $(PIP) --build-constraint constraints.txt --editable '.[$(1)]'; }

.PHONY: help env demo lint quick test proof ci outputs fetched fresh jars pythons constraints torture mutants export readme release docs clean bench lab
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## (.*)/make \1|\2/' | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

env: $(STAMP) $(VENV)/spark.jsa ## everything that Python brings, in .venv, and the classes of Spark in one file

# What a user has; tests need more.
$(BASE): settings.ini setup.py pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, $$($(PYTHON) --version) was found: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@command -v java >/dev/null || { echo "Java 17 is needed for Spark and no java was found: apt-get install openjdk-17-jre-headless"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is needed: apt-get install python3-venv"; exit 1; }
	$(PIP) --upgrade pip uv
	@$(call install,all)
	@touch $@

$(STAMP): $(BASE)
	@$(call install,all$(,)dev)
	@! test -e .git || { git config core.hooksPath .ci/hooks && git config merge.nbdev-merge.driver '$(abspath $(BIN))/nbdev_merge %O %A %B %P'; }
	@touch $@

demo: $(BASE) ## the whole story: a shop, its files, the lake, the proof
	$(BIN)/dmscdc demo $(DEMO)

# Parts that need nothing of each other run side by side, JOBS at once, the longest first; each prints what it has to say when it ends. A part of tests is
# one process, so one Spark; rooms of spark start it in many ways and have a process each.
JOBS   ?= 3
QUICK  := planning+asking+shapes+contracts+aws+adversary house+landing+crashes+running+proof+stream+session
ROOMS  := 08_load 07_lake 10_history 15_stream+16_deploy+17_cli+18_analyst 13_service+14_doctor+guide 09_runs 11_scd2+12_reconcile 05_changes 04_spark
PLAIN  := 00_errors.ipynb+shapes.ipynb+01_storage+02_landing+03_capture+06_state
TEST   := shapes+planning+recipes loading+session+proof+foreign asking histories+scenarios+contracts+house+jobs+running
PROOF  := aws+scenarios crashes+contracts+shapes stream+session+state_dynamodb+formats pages house asking+adversary proof+loading jobs+planning cluster+running
# What every format of the lake must do, one Spark each; those on Spark 3.5 have an environment of its own.
SECOND := .spark35
SUITE  := tests/contracts/test_tables.py tests/histories/test_histories.py tests/formats
HARD   := not known_to_be_hard# histories that plain Parquet follows in make test, and every format in make torture
LAKES  := 3.5/hudi 4.1/delta 4.1/iceberg 3.5/hudi-mor 3.5/parquet
# What differs from hudi, or from Parquet on Spark 4.1; make torture runs all.
lakes/3.5/hudi-mor lakes/3.5/parquet: SUITE := tests/contracts/test_tables.py
lakes/3.5/hudi-mor: HARD := a_commit_keeps or a_batch_inserts or columns_that_a_batch
BESIDE := $(MAKE) --no-print-directory --keep-going --output-sync=target --jobs $(JOBS)
parts   = export TIMES=$$(mktemp); begun=$$(date +%s); $(BESIDE) $(1); code=$$?; sort -rn $$TIMES; echo "make $@: $$(awk '{sum += $$1} END {print sum, "s in", NR}' $$TIMES) parts, $$(($$(date +%s) - begun)) s by the clock"; rm -f $$TIMES; exit $$code

# Spark's Java lives for seconds here: compiling well costs more than it gives (and one compiler alone has a small cache for code, which Java then
# empties all the time), and what it loads at its start is kept in one file.
ARCHIVE := $(VENV)/spark.jsa
BRIEF    = -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m -XX:SharedArchiveFile=$(abspath $(ARCHIVE)) -Xlog:disable
demo test proof ci torture outputs: export JAVA_TOOL_OPTIONS := $(JAVA_TOOL_OPTIONS) $(BRIEF)

$(ARCHIVE): $(BASE)
	@JAVA_TOOL_OPTIONS="$(filter-out $(BRIEF),$(JAVA_TOOL_OPTIONS)) -XX:TieredStopAtLevel=1 -XX:+UseSerialGC" \
	  $(BIN)/python -c "from dmscdc.spark.archive import write_archive; write_archive('$@')" || { echo "without it, Java starts as usual"; touch $@; }

BEFORE      := lint $(QUICK:%=quick/%) rooms/$(PLAIN)
AFTER_QUICK := $(TEST:%=test/%) $(ROOMS:%=rooms/%)
AND_PROOF   := $(PROOF:%=proof/%) $(LAKES:%=lakes/%)

quick: $(STAMP) ## what needs no Java: a minute and a half
	+@$(call parts,$(BEFORE))

test: quick $(ARCHIVE) ## quick, then what needs Spark alone, and every notebook
	+@$(call parts,$(AFTER_QUICK))

proof: $(ARCHIVE) ## what needs servers, kernels, browsers, databases or clusters, or kills something
	+@$(call parts,fetched $(SECOND)/.made)
	+@$(call parts,HAS_JARS=1 $(AND_PROOF))

ci: $(STAMP) $(ARCHIVE) ## quick, then test and proof side by side
	+@$(call parts,$(BEFORE) fetched $(SECOND)/.made)
	+@$(call parts,HAS_JARS=1 lakes/3.5/hudi $(AND_PROOF) $(AFTER_QUICK))

fetched: $(STAMP)  # jars that several parts want, before these begin
	@$(BIN)/python -c 'from dmscdc.spark.jars import fetched_jars, listed; fetched_jars(dict.fromkeys(jar for jars in listed().values() for jar in jars))'

jars: $(STAMP) $(SECOND)/.made ## the list of jars that Spark is given, with check sums, again
	.ci/jars $(VENV) $(SECOND) > jars.new
	@mv jars.new dmscdc/jars.txt

lint: $(STAMP) ## ruff and mypy, by the rules in pyproject.toml
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary

quick/% rooms/$(PLAIN): export JAVA_HOME := /nowhere
quick/% test/% proof/%: $(STAMP)
	@.ci/timed $@ $(BIN)/python -m pytest --tier $(@D) $(patsubst %,tests/%,$(subst +, ,$*))

$(filter proof/aws%,$(PROOF:%=proof/%)): $(SECOND)/.made  # a stream into Hudi runs on Spark 3.5

# A part that still waits for something when its turn comes is begun after all others: what is fetched before them all is not asked for again.
lakes/4.1/%: $(if $(HAS_JARS),,fetched)
	@HISTORIES=$(or $(HISTORIES),1) DMSCDC_FORMAT=$* .ci/timed $@ $(BIN)/python -m pytest $(TIER:%=--tier %) -k "$(HARD)" $(SUITE)

lakes/3.5/%: $(SECOND)/.made $(if $(HAS_JARS),,fetched)
	@HISTORIES=$(or $(HISTORIES),1) DMSCDC_FORMAT=$* .ci/timed $@ $(SECOND)/bin/python -m pytest $(TIER:%=--tier %) -k "$(HARD)" $(SUITE)

$(SECOND)/.made: $(STAMP) .ci/spark35
	.ci/spark35 $(BIN)/uv $(SECOND)
	@touch $@

rooms/04_spark: $(STAMP)
	@.ci/timed $@ $(BIN)/python tests/rooms.py --apart notebooks/04_spark

rooms/%: $(STAMP)
	@.ci/timed $@ $(BIN)/python tests/rooms.py $(patsubst %,notebooks/%,$(subst +, ,$*))

# What the cells show is kept with them and compared by make test. Explorations are executed by tests.
rooms/explored: $(STAMP)
	$(BIN)/python -m pytest tests/pages/test_explorations.py tests/jobs/test_notebooks.py -k is_kept

outputs: export OUTPUTS := write
outputs: $(ARCHIVE) ## what the notebooks show, again
	+@$(BESIDE) $(ROOMS:%=rooms/%) rooms/$(PLAIN) rooms/explored

fresh: ## what CI runs, in a new clone with an empty home
	@there=$$(mktemp -d) && trap "rm -rf $$there" EXIT && git clone --quiet . $$there/dmscdc && .ci/fresh make -C $$there/dmscdc $(or $(RUN),ci)

pythons: $(STAMP) ## a part of the tests on each Python from 3.11 on
	.ci/pythons $(BIN)/uv 3.11 3.13

constraints: $(STAMP) ## the versions that all of them install, again
	@echo "# What make env installs, on Python 3.11 and later; as the package index was on $$(date -u +%FT%TZ). Made by make constraints." > constraints.new
	printf 'pip\nsetuptools\nwheel\n' | $(BIN)/uv pip compile setup.py - --all-extras --universal --python-version 3.11 --no-header --no-annotate --quiet >> constraints.new
	@mv constraints.new constraints.txt

torture: $(ARCHIVE) fetched ## what CI leaves out, with the seeds of the day, in PART="adversary/named crashes/disks …" of less than an hour; hours for all
	@$(BIN)/python tests/torture.py $(PART)

mutants: $(STAMP) ## breaks that tests must notice, of modules changed since SINCE=COMMIT (tests/mutants.md)
	$(BIN)/python tests/mutants.py --jobs $(JOBS) $(if $(SINCE),--since $(SINCE)) $(WHICH)

export: $(STAMP) ## modules from notebooks, whose cells are put in form first
	$(BIN)/ruff check --quiet --select I001 --fix .
	$(BIN)/ruff format --quiet .
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

release: $(STAMP) ## wheel and source of the version in settings.ini, checked and installed where nothing else is
	rm -rf dist build
	$(BIN)/uv build --quiet --python $(BIN)/python
	$(BIN)/uv tool run --quiet twine check --strict dist/*.whl dist/*.tar.gz
	@there=$$(mktemp -d) && trap "rm -rf $$there" EXIT && $(BIN)/uv venv --quiet --python $(BIN)/python $$there && \
	  $(BIN)/uv pip install --quiet --python $$there/bin/python --constraint constraints.txt dist/*.whl && cd $$there && bin/dmscdc --version
	@echo "next: git tag v$$(sed -n 's/^version = //p' settings.ini) && git push --tags"

lab: $(BASE) ## JupyterLab over the notebooks
	$(BIN)/jupyter lab notebooks

bench: $(STAMP) ## the loads beside the usual recipe, as ratios
	$(BIN)/python bench/run.py

clean: ## remove what make has made
	rm -rf $(VENV) .pythons $(SECOND) $(SITE) site build dist *.egg-info demo .bench

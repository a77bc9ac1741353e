# make demo: environment and the whole story.  make test: environment and every test.
# make fresh: the same in a new clone with an empty home.  make pythons: a part of it on each Python from 3.10 on.
# make constraints: the versions that all of them install, anew.
# make torture: every kill point, HISTORIES=200 random histories, ADVERSARY=50 random tables, the cluster; prints what was tried.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.made
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
DEMO   ?= ./demo

.PHONY: env demo test fresh pythons constraints torture export readme clean bench lab

env: $(STAMP)

$(STAMP): settings.ini setup.py pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed, $$($(PYTHON) --version) was found: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@command -v java >/dev/null || { echo "Java 17 is needed for Spark and no java was found: apt-get install openjdk-17-jre-headless"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is needed: apt-get install python3-venv"; exit 1; }
	$(PIP) --upgrade pip
	PYTHONWARNINGS=ignore::UserWarning $(PIP) --build-constraint constraints.txt --editable '.[all,dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/dmscdc demo $(DEMO)

# Parts that need nothing of each other run side by side, JOBS at once; each prints what it has to say when it ends. Rooms of spark start it in
# many ways and have a process each. Tests that fetch parts of Spark stay in one process, so that no two write the same cache.
JOBS   ?= 3
ROOMS  := 01_storage+02_landing+03_capture+06_state 05_changes 07_lake 08_load 09_runs 10_history 11_scd2+12_reconcile 13_service 14_cli
LANES  := aws+crashes asking house jobs+pages loading+planning+session adversary+contracts+proof cluster+running histories+landing+scenarios+state_dynamodb
PARTS  := $(LANES:%=checks/%) rooms/04_spark $(ROOMS:%=rooms/%)

# Spark's Java lives for seconds here: compiling well costs more than it gives.
test: export JAVA_TOOL_OPTIONS := $(JAVA_TOOL_OPTIONS) -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
test: $(STAMP)
	@$(MAKE) --no-print-directory --keep-going --output-sync=target --jobs $(JOBS) $(PARTS)

checks/%: $(STAMP)
	$(BIN)/python -m pytest $(patsubst %,tests/%,$(subst +, ,$*))

rooms/04_spark: $(STAMP)
	@set -e; ls notebooks/04_spark/*.ipynb >/dev/null; for room in notebooks/04_spark/*.ipynb; do echo "$$room"; $(BIN)/nbdev_test --n_workers 0 --path $$room; done

rooms/%: $(STAMP)
	@echo "$*, in one process with one Java"; ls $(patsubst %,notebooks/%/*.ipynb,$(subst +, ,$*)) >/dev/null && $(BIN)/nbdev_test --n_workers 0 --path notebooks --folder_re "notebooks/($(subst +,|,$*))"

fresh:
	@there=$$(mktemp -d) && trap "rm -rf $$there" EXIT && git clone --quiet . $$there/dmscdc && .ci/fresh make -C $$there/dmscdc $(or $(RUN),test)

pythons: $(STAMP)
	.ci/pythons $(BIN)/uv 3.10 3.13

constraints: $(STAMP)
	@echo "# What make env installs, on Python 3.10 and later; as the package index was on $$(date -u +%FT%TZ). Made by make constraints." > constraints.new
	printf 'pip\nsetuptools\nwheel\n' | $(BIN)/uv pip compile setup.py - --all-extras --universal --python-version 3.10 --no-header --no-annotate --quiet >> constraints.new
	@mv constraints.new constraints.txt

torture: $(STAMP)
	HISTORIES=$(or $(HISTORIES),200) $(BIN)/python -m pytest -m "torture or not torture" -s tests/crashes tests/histories tests/adversary tests/asking tests/cluster tests/aws/test_s3a.py

export: $(STAMP)
	$(BIN)/nbdev_export
	$(BIN)/nbdev_clean

readme: $(STAMP)
	$(BIN)/jupyter nbconvert --to markdown --log-level=ERROR --output-dir . --output README notebooks/index.ipynb

lab: $(STAMP)
	$(BIN)/jupyter lab notebooks

bench: $(STAMP)
	$(BIN)/python bench/run.py

clean:
	rm -rf $(VENV) .pythons build dist *.egg-info demo .bench

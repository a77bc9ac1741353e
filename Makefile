# make demo: environment and the whole story.  make test: environment and every test.
# make torture: every kill point, HISTORIES=200 random histories, the cluster; prints what was tried.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.made
DEMO   ?= ./demo

.PHONY: env demo test torture export readme clean bench lab

env: $(STAMP)

$(STAMP): settings.ini setup.py pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed, $$($(PYTHON) --version) was found: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@command -v java >/dev/null || { echo "Java 17 is needed for Spark and no java was found: apt-get install openjdk-17-jre-headless"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is needed: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/dmscdc demo $(DEMO)

test: $(STAMP)
	@set -e; for room in notebooks/1*.ipynb; do echo "$$room"; $(BIN)/nbdev_test --n_workers 0 --path $$room; done
	@set -e; for floor in 0 2 3 4 5 6 7 8 9; do echo "notebooks/$${floor}…, in one process with one Java"; $(BIN)/nbdev_test --n_workers 0 --path notebooks --file_re "^$${floor}[0-9]_.*"; done
	$(BIN)/python -m pytest

torture: $(STAMP)
	HISTORIES=$(or $(HISTORIES),200) $(BIN)/python -m pytest -m "torture or not torture" -s tests/crashes tests/histories tests/cluster tests/aws/test_s3a.py

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
	rm -rf $(VENV) build dist *.egg-info demo .bench

# `make` prints what there is to make. Each target sets up what it needs, and a second call does only what is left.
# Any make since 3.81 and any POSIX shell will do. Paths are relative: the folder may have a space in its name.

.DEFAULT_GOAL := help
.PHONY: help lab test quick soak train reader bench race book chapters clean

# What a reader has set for other work stays out of the environment made here.
unexport PYTHONHOME PYTHONPATH JUPYTER_PATH
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

python := .venv/bin/python

# Defaults of the JupyterLab in .venv: no question about news, no look for updates. The reader's own settings stand above.
settings := .venv/share/jupyter/lab/settings/overrides.d

# The environment is ready if its own Python still starts and its stamp names this folder: a folder that was moved
# or copied would otherwise import the library from the old place.
ifneq ($(shell $(python) -c "import os; print(open('.venv/ready').read().strip() == os.getcwd())" 2>/dev/null),True)
.PHONY: .venv/ready
endif

help: ## print this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1	\2/p' Makefile

lab: .venv/ready ## open chapter 00 in JupyterLab
	@echo "Opening chapter 00 in JupyterLab; Ctrl+C, twice, closes it."
	@mkdir -p $(settings)
	@echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}' >$(settings)/heed.json
	@$(python) -m jupyterlab --LabApp.default_url=/lab/tree/chapters/00_preface.ipynb \
		$$(test "$$(id -u)" != 0 || echo --allow-root) $(OPTIONS)

test: .venv/ready ## check the code, the chapters and the book
	@echo "Testing the library, the chapters and the book."
	@$(python) -m ruff check --quiet .
	@$(python) -m pytest -n logical $(OPTIONS)

quick: .venv/ready ## check what has changed since the last commit, in a minute
	@$(python) -m ruff check --quiet .
	@$(python) book/quick.py $(OPTIONS)

soak: .venv/ready ## what repeats for certainty's sake: every planted bug, every chapter with its weights a last digit away
	@echo "Testing for certainty's sake, for an hour or two."
	@$(python) -m pytest -n logical -m soak $(OPTIONS)
	@$(python) book/chapters.py soak

train: .venv/ready ## train a translator for ten minutes and measure it; its sentences are fetched, or lie where HEED_DATA says
	@echo "Training a translator from German to English for ten minutes; Ctrl+C saves it, the same command goes on."
	@$(python) -m heed train recipes/multi30k-10min.toml
	@$(python) -m heed evaluate runs/multi30k-10min

reader: .venv/ready ## train chapter 16's model that has read this book again, some minutes
	@echo "Reading the book; the weights and the log go to assets/16_bert_and_gpt."
	@$(python) assets/16_bert_and_gpt/reader.py gpt 600

bench: .venv/ready ## measure speed and memory beside others, for some minutes; the sentences as for train
	@echo "Measuring; a machine without other work gives the clearest numbers."
	@$(python) -c "import transformers" 2>/dev/null || $(python) -m pip install --quiet -c requirements.lock -e '.[bench]' \
		|| echo "Without network Hugging Face's transformers is not installed, and not measured."
	@$(python) -m bench $(OPTIONS)

race: .venv/ready ## translate better after ten minutes: the course beside others, seventy minutes; the sentences as for train
	@echo "Racing, ten minutes for each contestant; a machine without other work gives the clearest numbers."
	@$(python) -c "import accelerate, joeynmt" 2>/dev/null || { \
		$(python) -m pip install --quiet -c requirements.lock -e '.[race]' && $(python) -m pip install --quiet --no-deps joeynmt==2.3.0; \
	} || echo "Without network what is missing is not installed, and does not take part."
	@$(python) -m bench.race all $(OPTIONS)

book: .venv/ready ## build the HTML edition in book/_build/html
	@echo "Building the HTML edition."
	@$(python) book/build.py

chapters: .venv/ready ## run every notebook in place, with the library's text, the map and the README's figure as they are now
	@echo "Running every chapter and storing what it prints."
	@$(python) book/chapters.py mirror
	@$(python) book/chapters.py run
	@$(python) book/chapters.py map
	@$(python) book/chapters.py cover

clean: ## remove .venv, book/_build and caches; trained models in runs/ stay
	@echo "Removing .venv, book/_build and caches."
	@rm -rf .venv book/_build build lib/*.egg-info .pytest_cache .ruff_cache .hypothesis
	@find . \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# The first Python 3.11 to 3.14 on the path, or the one that the reader names; the versions of requirements.lock; the
# stamp last. An environment that is half made is finished, one that cannot be is made anew.
.venv/ready: pyproject.toml requirements.lock
	@fits='import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))'; \
	home=$$(cat .venv/ready 2>/dev/null || pwd -P); \
	if [ "$$home" != "$$(pwd -P)" ] || ! { $(python) -c "$$fits" && $(python) -m pip --version; } >/dev/null 2>&1; then \
		if [ -n "$$PYTHON" ]; then set -- "$$PYTHON"; else set -- python3 python3.14 python3.13 python3.12 python3.11; fi; \
		for found in "$$@" ""; do "$$found" -c "$$fits" >/dev/null 2>&1 && break; done; \
		if [ -z "$$found" ]; then \
			echo "Heed needs Python 3.11 to 3.14 with venv, which is not there as $$*." \
				"Install one (Debian, Ubuntu: python3-venv too) or name it, as in: PYTHON=python3.12 make lab" >&2; exit 1; \
		fi; \
		echo "Making .venv with $$("$$found" --version)."; \
		rm -rf .venv && "$$found" -m venv .venv || exit 1; \
	fi; \
	echo "Installing the course into .venv: a minute or two, longer where torch is large."; \
	rm -f .venv/ready; \
	{ PYTHONUNBUFFERED=1 $(python) -m pip install -c requirements.lock -e '.[lab,test,book]' && pwd -P >.venv/ready; } 2>&1 \
	| tee .venv/install.log \
	| while IFS= read -r line; do case $$line in *Downloading*"("[1-9][0-9]*" MB)"*) echo " $$line";; esac; done; \
	if [ ! -f .venv/ready ]; then \
		if grep -q 'No space left' .venv/install.log; then why='the disk is full'; \
		elif grep -qE 'from versions: none|connection broken|name resolution|timed out' .venv/install.log; \
		then why='no network: the package index does not answer'; \
		else why=$$(grep -E 'ERROR|error:' .venv/install.log | tail -n 1); fi; \
		echo "Not installed, $$why. Mend that and run the command again; pip's own words are in .venv/install.log" >&2; exit 1; \
	fi

# Everything that Libra needs is set up by the targets themselves; `make` alone lists them.

VENV := .venv
# The stamp names this folder, so that a copied or moved tree does not run another one's code.
STAMP := $(VENV)/.installed-$(shell pwd -P | cksum | cut -d ' ' -f 1)
SHELL_VENV := .venv-shell
PYTHONS := setup/common.sh setup/venv.sh setup/constraints.txt pyproject.toml

ARGS ?=
TARGET ?=
RUN_OPTIONS := $(if $(TARGET),--target $(TARGET)) $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help run bench test torch api shell fuzz lint p4 tofino clean root

help: ## list the targets
	@echo 'Libra: in-network aggregation of the hot parameters of sparse models'
	@echo
	@sed -n 's/^\([a-z0-9]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 14
	@echo
	@echo 'Variables'
	@echo '  ARGS    more options, of `libra run --help` or of pytest: make run ARGS="--rounds 5"'
	@echo '  TARGET  the switch of `make run`: soft (default) or bmv2'
	@echo '  ADDRESS, DEVICE_ID, P4INFO, JSON  of `make shell`: see setup/shell.sh for all of them'
	@echo '  PYTHON  a Python from 3.11 on, if the one on PATH is older'

run: root $(STAMP) ## train a model through the switch and without it, and report (needs root or sudo)
	@setup/packages.sh emulation compiler
	@setup/as_root.sh $(VENV)/bin/libra run $(RUN_OPTIONS)

bench: root $(STAMP) ## measure the embedded switch against bmv2 and a bare reflector (needs root or sudo)
	@setup/packages.sh emulation compiler
	@setup/as_root.sh $(VENV)/bin/libra bench switch $(ARGS)

# Before anything that takes long.
root:
	@setup/as_root.sh

test: $(STAMP) ## run all tests that this machine allows; the others are skipped with the reason
	@setup/packages.sh --optional emulation compiler
	@setup/shell_venv.sh --optional $(SHELL_VENV)
	@setup/test.sh $(ARGS)

torch: $(STAMP) ## add PyTorch, for host_stack.torch, `libra run --framework torch` and their tests
	@setup/torch.sh $(VENV)

api: $(STAMP) ## write docs/api.md from the docstrings
	@$(VENV)/bin/python setup/api_page.py

shell: $(STAMP) ## open p4runtime-shell on a running switch
	@setup/shell.sh $(SHELL_VENV)

fuzz: $(STAMP) ## fuzz the embedded switch for a while: ARGS="packets --seconds 600"
	@$(VENV)/bin/python -m tests.fuzz $(ARGS)

lint: $(STAMP) ## check style and types
	@setup/lint.sh

p4: $(STAMP) ## compile p4src/ with p4c (which must be installed) into p4src/build/
	@$(VENV)/bin/python -m controller.p4build

tofino: $(STAMP) ## compile the program for Tofino, where p4c's Tofino back end is installed
	@$(VENV)/bin/python -m controller.tofinobuild $(ARGS)

clean: ## remove the virtual environment, results and caches of this folder
	@setup/clean.sh

$(STAMP): $(PYTHONS)
	@setup/venv.sh $(VENV)
	@touch $@

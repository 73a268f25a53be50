# Muster: two commands matter, `make up` and `make test`. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PLANE ?= default
BASE ?= HEAD

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(STAMP): requirements/dev.txt
	@./.ci/python $(PYTHON) $(VENV)
	@echo "installing Python packages into $(VENV)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --retries 5 --require-hashes -r requirements/dev.txt
	@touch $@

.PHONY: up
up: $(STAMP) ## Boot a real Kubernetes here, deploy stack local, run a Ray gang on it
	@$(PY) -m muster.local.demo.tour --plane $(PLANE)

.PHONY: down
down: $(STAMP) ## End the plane and everything in it
	@$(PY) -m localplane --plane $(PLANE) down

.PHONY: status
status: $(STAMP) ## How the plane is
	@$(PY) -m localplane --plane $(PLANE) status

.PHONY: test
test: $(STAMP) ## Everything that CI runs
	@$(PY) -m tests.budget check build unit mocks policies browser integration faults clouds e2e

.PHONY: soak
soak: $(STAMP) ## Break calls and kill the controller by 20 drawn seeds: make soak [SEEDS=50], one again with SEED=123
	@SEEDS="$(or $(SEEDS),$(if $(SEED),,20))" SEED="$(SEED)" $(PY) -m pytest -v tests/faults $(if $(SEED),-k schedule_of_faults) -p no:hypothesispytest

.PHONY: test-fast
test-fast: $(STAMP) ## Checks and unit tests: no plane, seconds
	@$(PY) -m tests.budget check unit

.PHONY: check
check: $(STAMP) ## ruff, mypy --strict, import-linter
	@$(PY) -m tests.budget check

.PHONY: build
build: $(STAMP) ## Build programs and images of the local plane, boot nothing
	@$(PY) -m localplane build

.PHONY: image
image: $(STAMP) ## Build the controller's image for amd64 and arm64
	@$(PY) -m images build

.PHONY: push
push: $(STAMP) ## Push it and write its digest into a stack: make image push STACK=gke-prod
	@: "$${STACK:?name a stack: make image push STACK=gke-prod}"
	@$(PY) -m images push --stack "$$STACK" $(if $(REPOSITORY),--repository "$(REPOSITORY)")

.PHONY: pin
pin: $(STAMP) ## Write the digests of the others' images and of the charts into a stack: make pin STACK=gke-prod
	@: "$${STACK:?name a stack: make pin STACK=gke-prod}"
	@$(PY) -m images pin --stack "$$STACK"

.PHONY: backend
backend: $(STAMP) ## Make the bucket and key for a stack's state and secrets: make backend STACK=gke-prod
	@: "$${STACK:?name a stack: make backend STACK=gke-prod}"
	@$(PY) -m account backend --stack "$$STACK"

.PHONY: preview
preview: $(STAMP) ## What a change means: make preview STACK=local BASE=origin/main [PLAN=json HTML=page]
	@: "$${STACK:?name a stack: make preview STACK=local}"
	@git rev-parse --quiet --verify "$(BASE)^{commit}" >/dev/null || { echo "BASE=$(BASE) is no commit" >&2; exit 2; }
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; file=stacks/Pulumi.$$STACK.yaml; base=none; head=none; \
	  if git cat-file -e "$(BASE):$$file" 2>/dev/null; then base=$$folder/base.yaml; git show "$(BASE):$$file" >"$$base"; fi; \
	  if [ -f "$$file" ]; then head=$$file; fi; \
	  $(PY) -m preview report --base "$$STACK=$$base" --head "$$STACK=$$head" $(if $(PLAN),--head-plan "$(PLAN)") \
	    $(if $(HTML),--html "$(HTML)") --markdown -

.PHONY: bench
bench: $(STAMP) ## Kueue's own check and ours, measured side by side: make bench [CASES="burst:1000x3" ROUNDS=5 MINUTES=20 ADD=1 ALL=1 CONTENDERS="builtin muster" JSON=1]
	@$(PY) -m bench.gangs $(if $(CASES),--cases $(CASES)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JSON),--json) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ADD),--add) \
	  $(if $(ALL),--contenders builtin muster builtin-tuned muster-tuned --standing 50000 --webhooks) \
	  $(if $(CONTENDERS),--contenders $(CONTENDERS))

.PHONY: stack
stack: $(STAMP) ## Write a stack file: make stack NAME=gke-dev PROVIDER=gke
	@$(PY) -m muster new $(NAME) --provider $(PROVIDER)

.PHONY: lock
lock: ## Resolve requirements/*.in anew: with hashes, and the constraints of `muster init`
	@lock() { uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" "$$@"; }; data=muster/artifacts/data/requirements; \
	lock --generate-hashes requirements/dev.in -o requirements/dev.txt; \
	for name in controller ray go; do lock --generate-hashes requirements/$$name.in -o $$data/$$name.txt; done; \
	lock --no-annotate --constraint requirements/dev.txt requirements/{base,program,gke,eks,local}.in -o $$data/constraints.txt

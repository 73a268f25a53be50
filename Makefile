# Muster: two commands matter, `make up` and `make test`. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# Everything of requirements/dev.txt is installed; what `make up` needs is; what `make docs` needs is.
STAMP := $(VENV)/.installed
UP_STAMP := $(or $(wildcard $(STAMP)),$(VENV)/.installed-up)
DOCS_STAMP := $(or $(wildcard $(STAMP)),$(VENV)/.installed-docs)
PLANE ?= default
BASE ?= HEAD

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(STAMP): requirements/dev.txt pyproject.toml
	@./.ci/python $(PYTHON) $(VENV)
	$(call install,dev)

$(VENV)/.installed-up: requirements/up.txt pyproject.toml
	@./.ci/python $(PYTHON) $(VENV)
	@$(PY) -m muster.local.preflight
	$(call install,up)

$(VENV)/.installed-docs: requirements/docs.txt
	@./.ci/python $(PYTHON) $(VENV)
	$(call packages,docs)
	@touch $@

define packages
	@echo "installing Python packages into $(VENV): requirements/$(1).txt"
	@./.ci/patiently installing $(PY) -m pip install --quiet --disable-pip-version-check --retries 5 --require-hashes \
	  -r requirements/$(1).txt
endef

define install
	$(call packages,$(1))
	@$(PY) -m pip uninstall --quiet --quiet --yes muster # the package's name before muster-gpu: two would both put `muster` on the path
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
endef

.PHONY: up
up: $(UP_STAMP) ## Boot a real Kubernetes here, deploy stack local, run a Ray gang on it
	@$(PY) -m muster local demo --name $(PLANE)

.PHONY: down
down: $(UP_STAMP) ## Stop the local cluster and delete everything in it
	@$(PY) -m muster local down --name $(PLANE)

.PHONY: status
status: $(UP_STAMP) ## Whether the local cluster is healthy
	@$(PY) -m muster local status --name $(PLANE)

# Three rows, side by side. `make test-all` adds its last suite to the last row, after `local`.
SUITES := build check unit --beside integration policies browser faults mocks --beside e2e clouds local

.PHONY: test
test: $(STAMP) ## Everything that CI runs for a change: all but what tests/long.toml lists
	@$(PY) -m tests.budget --short $(SUITES)

.PHONY: test-all
test-all: $(STAMP) ## Every test, before a release and by night: make test-all [EXAMPLES=10]
	@MUSTER_EXAMPLES="$(EXAMPLES)" $(PY) -m tests.budget kubeflow $(SUITES) kai

.PHONY: test-changed
test-changed: $(STAMP) ## The tests that a change can break, by its imports: make test-changed [BASE=origin/main ALL=1]
	@$(PY) -m tests.changed $(if $(filter-out HEAD,$(BASE)),--base "$(BASE)") $(if $(ALL),--all)

.PHONY: test-karpenter
test-karpenter: $(STAMP) ## Gangs on the real Karpenter, with a stand-in for its cloud: make test-karpenter [SEEDS=200]
	@SEEDS="$(SEEDS)" $(PY) -m tests.budget build karpenter

.PHONY: test-kai
test-kai: $(STAMP) ## Gangs, queues and forecasts on the real KAI 0.12, and its story on the local cluster
	@$(PY) -m tests.budget build kai

.PHONY: soak
soak: $(STAMP) ## Break calls and kill the controller by 20 drawn seeds, run virtual days: make soak [SEEDS=50], one again with SEED=123
	@SEEDS="$(or $(SEEDS),$(if $(SEED),,20))" SEED="$(SEED)" $(PY) -m pytest -v tests/faults $(if $(SEED),-k schedule_of_faults,tests/e2e/test_killed.py tests/clouds/test_applied.py) -p no:hypothesispytest
	@$(if $(SEED),,$(PY) -m bench.virtual_days --days 20)

.PHONY: tenant
tenant: $(STAMP) ## Draw what a member of a team may send, on the real Kueue and KubeRay: make tenant [STEPS=500]
	@MUSTER_TENANT_STEPS="$(or $(STEPS),500)" $(PY) -m pytest -v -s tests/integration/kueue_api/test_tenant_program.py

.PHONY: search
search: $(STAMP) ## Search orders of events for one that breaks a gang: make search [MINUTES=9 JSON=1 START=kueue-requests]
	@$(PY) -m tests.search $(START) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(JSON),--json)

.PHONY: virtual-days
virtual-days: $(STAMP) ## Virtual days of new seeds, after the one that failed last: make virtual-days [DAYS=5 SEEDS=10]
	@$(PY) -m bench.virtual_days --days $(or $(DAYS),5) --draw $(or $(SEEDS),10)

.PHONY: fuzz
fuzz: $(STAMP) ## Change what Muster reads of strangers at random, ten minutes for each importer: make fuzz [SECONDS_EACH=60]
	@$(PY) -m tests.fuzz --seconds $(or $(SECONDS_EACH),600)

.PHONY: matrix
matrix: $(STAMP) ## Run suites on each Kubernetes that can be built, write the support table: make matrix [KUBERNETES=1.36 SUITE=tenancy]
	@$(PY) -m tests.matrix $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(if $(SUITE),--suite $(SUITE)); result=$$?; \
	$(PY) -m tests.matrix.page docs/reference/support.md && exit $$result

.PHONY: test-fast
test-fast: $(STAMP) ## Checks and unit tests: no local cluster, five minutes
	@$(PY) -m tests.budget check unit

.PHONY: check
check: $(STAMP) ## ruff, mypy --strict, import-linter, the documentation's site
	@$(PY) -m tests.budget check

.PHONY: build
build: $(STAMP) ## Build programs and images of the local cluster, start nothing
	@$(PY) -m muster local build

.PHONY: image
image: $(STAMP) ## Build the controller's image for amd64 and arm64
	@$(PY) -m muster image build $(STACK) $(if $(REPOSITORY),--repository "$(REPOSITORY)")

.PHONY: push
push: $(STAMP) ## Push it and write its digest into a stack: make image push STACK=gke-prod
	@: "$${STACK:?name a stack: make image push STACK=gke-prod}"
	@$(PY) -m muster image push "$$STACK" $(if $(REPOSITORY),--repository "$(REPOSITORY)")

.PHONY: pin
pin: $(STAMP) ## Write the digests of the others' images and of the charts into a stack: make pin STACK=gke-prod
	@: "$${STACK:?name a stack: make pin STACK=gke-prod}"
	@$(PY) -m muster image pin "$$STACK"

.PHONY: release
release: $(STAMP) ## Write wheel, image, site, bills of materials, checksums and notes into build/release: make release [DRAFT=1 OLD_FACT=prices KEY=release.key REPOSITORY=https://...]
	@$(PY) -m release $(if $(DRAFT),--draft) $(if $(OLD_FACT),--old-fact "$(OLD_FACT)") \
	  $(if $(KEY),--key "$(KEY)") $(if $(REPOSITORY),--repository "$(REPOSITORY)")

.PHONY: pin-programs
pin-programs: $(STAMP) ## Write the digests of released programs into versions.toml
	@$(PY) -m muster local pin-programs

.PHONY: backend
backend: $(STAMP) ## Make the bucket and key for a stack's state and secrets: make backend STACK=gke-prod
	@: "$${STACK:?name a stack: make backend STACK=gke-prod}"
	@$(PY) -m muster backend create "$$STACK"

.PHONY: preview
preview: $(STAMP) ## What a change means: make preview STACK=local BASE=origin/main [PLAN=json HTML=page FAIL_ON=loss]
	@: "$${STACK:?name a stack: make preview STACK=local}"
	@$(PY) -m muster diff "$$STACK" --base "$(BASE)" $(if $(PLAN),--head-plan "$(PLAN)") $(if $(HTML),--html "$(HTML)") \
	  $(if $(FAIL_ON),--fail-on "$(FAIL_ON)") --markdown -

.PHONY: bench
bench: $(STAMP) ## Kueue's own check and ours, measured side by side: make bench [CASES="burst:1000x3" ROUNDS=5 MINUTES=20 ADD=1 ALL=1 CONTENDERS="builtin muster" JSON=1]
	@$(PY) -m muster bench $(if $(CASES),--cases $(CASES)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JSON),--json) \
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
	for name in up docs; do lock --generate-hashes --constraint requirements/dev.txt requirements/$$name.in -o requirements/$$name.txt; done; \
	for name in controller ray ray-2.60 go; do lock --generate-hashes requirements/$$name.in -o $$data/$$name.txt; done; \
	lock --no-annotate --constraint requirements/dev.txt requirements/{base,check,program,gke,eks,local}.in -o $$data/constraints.txt

.PHONY: docs
docs: $(DOCS_STAMP) ## Build the documentation's site into build/site, without a warning and without a network
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

.PHONY: reference
reference: $(STAMP) ## Write docs/reference, stacks/schema.json and the keys in Pulumi.yaml from their declarations
	@$(VENV)/bin/python -m release.reference docs/reference
	@$(VENV)/bin/python -m release.checkout

.PHONY: pictures
pictures: $(STAMP) ## Write docs/pictures from what they show: the state machine, import contracts, queues, a recorded run, the report's page
	@$(PY) -m tests.pictures docs/pictures
	@$(PY) -m tests.browser.pictures docs/pictures

.PHONY: licences
licences: $(STAMP) ## Write docs/licences.md from the images of the last build
	@page=$$($(PY) -m muster.artifacts.publish.bom) && printf '%s\n' "$$page" >docs/licences.md

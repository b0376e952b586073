# A bare machine needs git, make and Python 3.11 to 3.14; everything else comes from the lock files.
#
#   make run            set up, then start the whole service (MQ_PORT, MQ_DATA_DIR, MQ_WEB_WORKERS, DATABASE_URL, VALKEY_URL)
#   make test           set up, check style, types and import rules, then run a test of each kind
#   make analytics      add what nightly reports need (450 MB); make run keeps it
#                       Both of these, and then make run, look for Java 17 or newer, or install it by apt where they may;
#                       none fails without it.
#   make stop           stop the service that owns the data directory
#   make torture        run what counts and repeats: the long tests, then the fault tests at release size; updates
#                       evidence/ and docs/reliability.md (two hours; QUICK=1: 15 minutes, updates neither)
#   make fuzz           send 5,000 requests made from the OpenAPI document to a service of its own (FUZZ_CASES, FUZZ_SEED)
#   make console        build the console's styles and scripts after a change in frontend/ (Node 20; nothing else needs it)
#   make bench          measure
#   make bench-peers    measure beside RabbitMQ, NATS and ActiveMQ, as many as are installed; updates evidence/peers.json
#                       and docs/peers.md (PEERS=--quick: two minutes, updates neither)
#   make lint           check style, types, import rules
#   make lock           update the lock files from pyproject.toml (UPGRADE=--upgrade: newest versions)
#   make docs           build the documentation site into site/, failing on any warning
#   make image          build the container image with docker, podman or buildah, without a registry if need be;
#                       image-analytics adds Java and PySpark, image-cluster what a replicated log needs (TOOL=buildah
#                       chooses); image-test builds and runs the first two (root, buildah; minutes)
#   make clean          remove the environment, the data directory and all caches

SHELL := /bin/sh
VENV := .venv
# The first of these that is Python 3.11 to 3.14 with its venv module creates the environment; `make PYTHON=…` names another.
PYTHON :=
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)
BIN := $(VENV)/bin
MQ_DATA_DIR ?= var
export MQ_DATA_DIR
# Always store compiled modules: otherwise a dozen processes compile a thousand modules each whenever they start.
export PYTHONDONTWRITEBYTECODE :=
# Four at once on two cores: much of their time tests wait for clocks, processes and the disk.
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder --ignore=tests/acceptance/image
COMPILE := $(BIN)/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 \
	--generate-hashes --no-emit-package mqservice-client --no-emit-index-url --no-emit-find-links --no-annotate \
	--custom-compile-command "make lock"

# uv reads no PIP_* variables, but a machine set up for pip must work too. Values set for uv itself take precedence.
UV_ENV := \
	if [ -n "$$PIP_INDEX_URL" ]; then export UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$$PIP_INDEX_URL}"; fi; \
	if [ -n "$$PIP_EXTRA_INDEX_URL" ]; then export UV_EXTRA_INDEX_URL="$${UV_EXTRA_INDEX_URL:-$$PIP_EXTRA_INDEX_URL}"; fi; \
	if [ -n "$$PIP_FIND_LINKS" ]; then \
		export UV_FIND_LINKS="$${UV_FIND_LINKS:-$$(printf '%s' "$$PIP_FIND_LINKS" | tr ' ' ',')}"; fi; \
	if [ -n "$$PIP_CERT" ]; then export SSL_CERT_FILE="$${SSL_CERT_FILE:-$$PIP_CERT}"; fi; \
	if [ -n "$$PIP_NO_INDEX" ]; then export UV_NO_INDEX="$${UV_NO_INDEX:-1}"; fi; \
	unset VIRTUAL_ENV CONDA_PREFIX;

# $(call sync,LOCK): make the environment exactly what LOCK lists, with every file checked against its hash.
# The project and its client are added by a .pth file, so nothing outside the lock is downloaded.
define sync
	@echo "Installing the packages of $(1) into $(VENV) ..."
	@# Show which large packages uv downloads, but not its list of everything installed.
	@$(UV_ENV) { $(BIN)/uv pip sync --python $(BIN)/python --require-hashes requirements-bootstrap.lock $(1) 2>&1 \
		|| touch $(VENV)/.uv-failed; } | grep -v '^ [-+~] ' || true; \
	if [ -f $(VENV)/.uv-failed ]; then \
		rm $(VENV)/.uv-failed; echo "uv could not install them; trying again with pip"; \
		$(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r $(1); fi
	@$(BIN)/python -c "import pathlib, sysconfig; here = pathlib.Path.cwd(); \
		pathlib.Path(sysconfig.get_path('purelib'), 'mqservice_checkout.pth').write_text(f'{here}\n{here}/clients/python\n')"
	@printf '#!%s\nfrom mqservice.cli.main import app\n\napp()\n' "$(CURDIR)/$(BIN)/python" > $(BIN)/mqservice
	@chmod +x $(BIN)/mqservice
endef

.PHONY: run analytics test lint lint-quick stop bench bench-peers torture fuzz docs clean lock console image image-analytics image-cluster image-test

run: $(VENV)/.run-ready
	@if [ -f $(VENV)/.analytics-ready ]; then $(BIN)/python -m analytics.java --background $(VENV)/java.log; \
	else echo "Nightly reports are off; make analytics adds what they need (450 MB)."; fi
	@exec $(BIN)/python -m mqservice.cli.main up

analytics: $(VENV)/.analytics-ready
	@$(BIN)/python -m analytics.java
	@$(BIN)/python -c "import sys; from analytics.session import spark_problem; reason = spark_problem(); \
		print('Nightly reports are off: ' + reason if reason else 'Nightly reports are ready.'); sys.exit(bool(reason))"

# mypy keeps one core busy for more than a minute; what it says is shown once it is done, and again at the end if it
# fails. On the other core all tests are collected meanwhile, so that each module is compiled once and not by three
# processes at the same time; what is wrong with one shows when the tests run.
test: $(VENV)/.test-ready lint-quick
	@$(BIN)/python -m analytics.java
	@$(BIN)/python -m tests.chromium
	@types=$(VENV)/mypy.log; echo "$(BIN)/mypy, beside the tests"; \
	{ $(BIN)/mypy >$$types 2>&1; status=$$?; cat $$types; exit $$status; } & typing=$$!; \
	$(BIN)/python -m pytest --collect-only --quiet >/dev/null 2>&1; \
	echo '$(PYTEST) -m "not torture"'; $(PYTEST) -m "not torture"; tests=$$?; \
	wait $$typing || { echo; echo "mypy failed:"; cat $$types; exit 1; }; exit $$tests

lint: lint-quick
	$(BIN)/mypy

# What takes seconds.
lint-quick: $(VENV)/.test-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

stop:
	@if [ -x $(BIN)/mqservice ]; then $(BIN)/python -m mqservice.cli.main stop; \
	else echo "nothing to stop: there is no environment in $(VENV)"; fi

bench: $(VENV)/.test-ready
	$(BIN)/python -m bench

bench-peers: $(VENV)/.test-ready
	$(BIN)/python -m bench.peers $(PEERS)

torture: $(VENV)/.test-ready
	$(if $(QUICK),$(PYTEST) -m torture,MQ_TORTURE=1 $(PYTEST) -m "torture or sized")
	$(BIN)/python -m tests.torture run $(if $(QUICK),--quick)

FUZZ_CASES ?= 5000
FUZZ_SEED ?= 0
fuzz: $(VENV)/.test-ready
	$(BIN)/python -m tests.mqservice.reference.fuzzing --cases $(FUZZ_CASES) --seed $(FUZZ_SEED)

# The site is built in its own environment: nothing else needs it, and it needs nothing else.
DOCS := $(VENV)/docs
docs: $(DOCS)/.ready
	@$(DOCS)/bin/python -m tests.docs.check
	@# Its cache shares .cache with what tests have downloaded, which --clean would remove too.
	@mkdir -p .cache && find .cache -maxdepth 1 -type f -name '[0-9]*' -exec rm -f {} + && rm -rf site
	@NO_COLOR=1 $(DOCS)/bin/zensical build --strict
	@echo "The documentation is site/index.html; its search needs a server: python3 -m http.server --directory site 8080"

TOOL :=
image:
	@$(firstword $(PYTHONS)) -m deploy.image $(if $(TOOL),--tool $(TOOL))

image-analytics:
	@$(firstword $(PYTHONS)) -m deploy.image --target analytics $(if $(TOOL),--tool $(TOOL))

image-cluster:
	@$(firstword $(PYTHONS)) -m deploy.image --target cluster $(if $(TOOL),--tool $(TOOL))

image-test: $(VENV)/.test-ready
	$(BIN)/python -m pytest -rs tests/acceptance/image tests/deploy

console:
	@command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 || { \
		echo "Node 20 or newer with npm is needed to build the console; to run it is not" >&2; exit 1; }
	cd frontend && npm ci --ignore-scripts --no-audit --no-fund && node build.mjs
	@if command -v msgfmt >/dev/null 2>&1; then $(BIN)/python -m mqservice.console.translations; \
	else echo "msgfmt (Debian: gettext) is needed to compile changed translations" >&2; fi

clean: stop
	@# Remove only what the service created: the variable may name any directory by mistake.
	if [ -f "$(MQ_DATA_DIR)/lock" ]; then \
		cd "$(MQ_DATA_DIR)" && rm -rf store pg valkey log run mail lake reports report-* secrets.toml ports.json quickstart.json lock && \
		cd - >/dev/null && rmdir "$(MQ_DATA_DIR)" || true; fi
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .cache dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

lock: $(VENV)/.uv-ready
	@$(UV_ENV) set -e; \
	echo "uv==0.13.8" | $(COMPILE) - -o requirements-bootstrap.lock; \
	$(COMPILE) pyproject.toml -o requirements.lock; \
	$(COMPILE) pyproject.toml --extra analytics -c requirements.lock -o requirements-analytics.lock; \
	$(COMPILE) pyproject.toml --extra tracing -c requirements.lock -o requirements-tracing.lock; \
	$(COMPILE) pyproject.toml --extra object-store --extra kafka -c requirements.lock -o requirements-cluster.lock; \
	$(COMPILE) pyproject.toml --extra analytics --extra tracing --extra object-store --extra kafka --group dev \
		-c requirements.lock -c requirements-analytics.lock -c requirements-tracing.lock -c requirements-cluster.lock \
		-o requirements-dev.lock; \
	$(COMPILE) --group docs -o requirements-docs.lock; \
	touch $(VENV)/.uv-ready

# Each lock contains the one before it: run, analytics, test. Packages installed once are kept.
$(VENV)/.run-ready: requirements.lock $(firstword $(MAKEFILE_LIST)) $(VENV)/.uv-ready
	$(if $(wildcard $(VENV)/.test-ready),$(call sync,requirements-dev.lock),$(if \
		$(wildcard $(VENV)/.analytics-ready),$(call sync,requirements-analytics.lock),$(call sync,requirements.lock)))
	@touch $@

$(VENV)/.analytics-ready: requirements-analytics.lock $(firstword $(MAKEFILE_LIST)) $(VENV)/.uv-ready
	$(if $(wildcard $(VENV)/.test-ready),$(call sync,requirements-dev.lock),$(call sync,requirements-analytics.lock))
	@touch $@ $(VENV)/.run-ready

$(VENV)/.test-ready: requirements-dev.lock $(firstword $(MAKEFILE_LIST)) $(VENV)/.uv-ready
	$(call sync,requirements-dev.lock)
	@touch $@ $(VENV)/.run-ready $(VENV)/.analytics-ready

$(DOCS)/.ready: requirements-docs.lock $(VENV)/.uv-ready
	@echo "Installing the packages of requirements-docs.lock into $(DOCS) ..."
	@$(BIN)/python -m venv --clear $(DOCS)
	@$(UV_ENV) $(BIN)/uv pip sync --quiet --python $(DOCS)/bin/python --require-hashes requirements-docs.lock \
	|| { echo "uv could not install them; trying again with pip"; \
		$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
			-r requirements-docs.lock; }
	@touch $@

$(VENV)/.uv-ready: requirements-bootstrap.lock
	@looked=""; python=""; \
	for candidate in $(PYTHONS); do \
		if ! version=$$($$candidate -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); then \
			looked="$$looked, $$candidate (not found)"; continue; fi; \
		case $$version in 3.11|3.12|3.13|3.14) ;; *) looked="$$looked, $$candidate (is $$version)"; continue;; esac; \
		if ! $$candidate -c 'import venv, ensurepip' 2>/dev/null; then \
			looked="$$looked, $$candidate ($$version without venv; on Debian: apt-get install python$$version-venv)"; \
			continue; fi; \
		python=$$candidate; break; \
	done; \
	if [ -z "$$python" ]; then \
		echo "Python 3.11 to 3.14 is needed. Looked for$${looked#,}." >&2; \
		echo "Install one of them, or name it: make PYTHON=/path/to/python3 …" >&2; exit 1; fi; \
	echo "Creating the environment $(VENV) with $$($$python --version) ..."; \
	$$python -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bootstrap.lock \
	|| { echo "Could not install uv from the package index, as pip says above. Run the command again." >&2; exit 1; }
	@touch $@

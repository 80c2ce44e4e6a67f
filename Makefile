# Everything is set up on the way: the virtual environment, the build, then the job. A second run does only what changed.
#   make demo | test | lint | bench | docs | wheel | ...: CONTRIBUTING.md has a table of all of them
#   PYTHON=python3.12 make test

# ---- The Python, and the environment made from it -------------------------------------------------------------------
ifndef PYTHON
PYTHON := $(shell for python in python3.11 python3.12 python3.13 python3; do \
    $$python -c 'import ensurepip, os, sysconfig, venv; os.stat(sysconfig.get_path("include") + "/Python.h")' \
    2>/dev/null && echo $$python && break; done)
endif
TAG := $(if $(PYTHON),$(shell $(PYTHON) -c 'import sys; print("cp%d%d" % sys.version_info[:2])' 2>/dev/null))
ifeq ($(TAG),)
$(error $(if $(PYTHON),PYTHON=$(PYTHON) does not run,No Python 3.11, 3.12 or 3.13 with headers and venv was found): \
    choose one with PYTHON=...)
endif

VENV := $(if $(filter cp311,$(TAG)),.venv,.venv-$(TAG))
IN_VENV := $(VENV)/bin
BUILD := build/$(TAG)
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
TESTS ?= tests

.PHONY: build test test-frames demo bench models golden docs format lint tidy clean
.DELETE_ON_ERROR:

$(VENV)/.ready: requirements/torch.txt requirements/build.txt requirements/test.txt requirements/constraints.txt
	$(PYTHON) tools/environment.py $(VENV) torch build test
	touch $@

$(VENV)/.lint-ready: requirements/lint.txt $(VENV)/.ready
	$(PYTHON) tools/environment.py $(VENV) lint
	touch $@

$(VENV)/.demo-ready: requirements/demo.txt requirements/constraints.txt $(VENV)/.ready
	$(PYTHON) tools/environment.py $(VENV) demo
	touch $@

$(VENV)/.models-ready: requirements/models.txt $(VENV)/.demo-ready
	$(PYTHON) tools/environment.py $(VENV) --no-deps models
	touch $@

$(VENV)/.page-ready: requirements/page.txt requirements/constraints.txt $(VENV)/.ready
	$(PYTHON) tools/environment.py $(VENV) page
	touch $@

# ---- The build: configured once, then left to Ninja, which configures again when a build file changes -----------------
CONFIGURE = $(IN_VENV)/cmake -G Ninja -S . -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(IN_VENV)/ninja
CONFIGURE_TORCH = $(CONFIGURE) -DPython_EXECUTABLE=$(CURDIR)/$(IN_VENV)/python
NINJA = $(IN_VENV)/ninja -j $(JOBS) -C

$(BUILD)/build.ninja: $(VENV)/.ready
	$(CONFIGURE_TORCH) -B $(BUILD)
	touch $@

build: $(BUILD)/build.ninja
	$(NINJA) $(BUILD)

# ---- The jobs ---------------------------------------------------------------------------------------------------------
export PYTHONPATH := $(CURDIR)/python

test: build test-frames
	$(IN_VENV)/python -m pytest -n $(JOBS) --dist worksteal $(TESTS)

# The same tests with all samples of operations and whole products where `make test` takes a part: an hour.
.PHONY: test-long test-shapes
test-long: build
	STATOR_LONG_TESTS=1 $(IN_VENV)/python -m pytest -n $(JOBS) --dist worksteal -o timeout=7200 $(TESTS)

test-shapes:
	$(MAKE) test-long TESTS=tests/shape

# The page of a report in a browser: Debian's Chromium, or one that playwright fetches.
.PHONY: test-page
test-page: build $(VENV)/.page-ready
	command -v chromium || $(IN_VENV)/playwright install chromium
	$(IN_VENV)/python -m pytest -q tests/page

demo: build $(VENV)/.demo-ready
	$(IN_VENV)/python -m demo

# The libraries of models: with them `make bench` measures more, and `make test` tests more.
models: $(VENV)/.models-ready

bench: build
	$(IN_VENV)/python -m bench

# Libraries that call torch.compile themselves, with TorchDynamo and with Stator: writes docs/integrations.md. Some libraries
# would bring another torch: they are installed without dependencies, and the torch is looked at afterwards.
INTEGRATIONS_VENV := .venv-integrations
LIBRARIES ?=
.PHONY: integrations
$(INTEGRATIONS_VENV)/.ready: requirements/torch.txt requirements/test.txt requirements/constraints.txt requirements/integrations.txt
	$(PYTHON) tools/environment.py $(INTEGRATIONS_VENV) torch test
	$(PYTHON) tools/environment.py $(INTEGRATIONS_VENV) --no-deps integrations
	$(INTEGRATIONS_VENV)/bin/python -m pip list --disable-pip-version-check | grep -E '^torch +2\.13\.0'
	touch $@

integrations: build $(INTEGRATIONS_VENV)/.ready
	$(INTEGRATIONS_VENV)/bin/python -m tests.integrations $(LIBRARIES)

golden: build
	EXPECTTEST_ACCEPT=1 $(IN_VENV)/python -m pytest -n $(JOBS) --dist loadfile -q $(TESTS)
	git diff --stat -- tests

# The rooms that need no PyTorch, on the other Pythons that this machine has, side by side. A version that is absent says so.
FRAMES_PYTHONS ?= 3.12 3.13
FRAMES_TESTS := tests/cpython tests/bytecode
FRAMES_VENV = .venv-frames-$(FRAMES_VERSION)
FRAMES_BUILD = build/frames/$(FRAMES_VERSION)
.PHONY: test-frames-on
test-frames: $(VENV)/.ready
	@started=; for version in $(FRAMES_PYTHONS); do \
	    python=$$($(IN_VENV)/python tools/find_python.py $$version); \
	    if [ -z "$$python" ]; then echo "Python $$version is not on this machine: its frame tests are skipped."; continue; fi; \
	    $(MAKE) --no-print-directory test-frames-on FRAMES_VERSION=$$version FRAMES_PYTHON=$$python & started="$$started $$!"; \
	done; for process in $$started; do wait $$process || exit 1; done

test-frames-on:
	@[ $(FRAMES_VENV)/.ready -nt requirements/frames.txt ] || \
	    { $(FRAMES_PYTHON) tools/environment.py $(FRAMES_VENV) frames && touch $(FRAMES_VENV)/.ready; }
	@[ -f $(FRAMES_BUILD)/build.ninja ] || $(CONFIGURE) -B $(FRAMES_BUILD) -DSTATOR_FRAMES_ONLY=ON \
	    -DPython_EXECUTABLE=$(CURDIR)/$(FRAMES_VENV)/bin/python -DSTATOR_OUTPUT=$(CURDIR)/$(FRAMES_BUILD)/extension
	$(NINJA) $(FRAMES_BUILD)
	STATOR_FRAMES=$$(ls $(CURDIR)/$(FRAMES_BUILD)/extension/_frames.*.so) \
	    $(FRAMES_VENV)/bin/python -m pytest -q -p no:cacheprovider $(FRAMES_TESTS)

# ---- Instrumented builds, each in a folder of its own with links to the same Python files -------------------------------
define link-package
find python/stator -type f ! -name '*.so' ! -name '*.pyc' ! -name _built_with.py -printf '%P\n' | while read -r file; do \
    mkdir -p $(1)/python/stator/$$(dirname $$file) && ln -sfn $(CURDIR)/python/stator/$$file $(1)/python/stator/$$file; done
endef
pytest-with = $(IN_VENV)/python -m pytest -n $(JOBS) --dist worksteal -p no:cacheprovider -o pythonpath="$(1)/python ."

# Sanitizers. Tests do not look for leaks, because PyTorch and CPython leave too much behind at exit: `make sanitize-leaks`
# does. `tests/project/test_sanitizer.py` shows that a use after free is caught.
# `SANITIZE_ROOMS="cpython;graph"` instruments these folders of src/ alone, which takes a fraction of the time.
SANITIZED := build/sanitize-$(TAG)
SANITIZE_ROOMS ?=
.PHONY: sanitize sanitize-fast sanitize-build sanitize-leaks
$(SANITIZED)/build.ninja: $(VENV)/.ready
	$(CONFIGURE_TORCH) -B $(SANITIZED) -DSTATOR_SANITIZE=ON "-DSTATOR_SANITIZE_ROOMS=$(SANITIZE_ROOMS)" -DSTATOR_OUTPUT=$(CURDIR)/$(SANITIZED)/python/stator
	touch $@

sanitize-build: $(SANITIZED)/build.ninja
	$(NINJA) $(SANITIZED)
	@$(call link-package,$(SANITIZED))

in-sanitized = PYTHONPATH=$(CURDIR)/$(SANITIZED)/python PYTHONMALLOC=malloc STATOR_SANITIZED=1 \
    LD_PRELOAD="$$(tools/sanitizer_libraries)" \
    ASAN_OPTIONS=detect_leaks=0:alloc_dealloc_mismatch=0:detect_odr_violation=0:abort_on_error=0:exitcode=99 \
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
sanitize: sanitize-build
	$(in-sanitized) $(call pytest-with,$(SANITIZED)) -o timeout=600 $(TESTS)

# What a program leaves behind for each round, by LeakSanitizer: see tests/torture/leaks.py.
sanitize-leaks: sanitize-build
	$(in-sanitized) $(IN_VENV)/python -m tests.torture.leaks

# Races between threads, in rooms that hold state of the process: see tests/torture/races.py.
RACES := build/races-$(TAG)
RACE_ROOMS ?= run;capture;guard;effect
.PHONY: races-build sanitize-threads
$(RACES)/build.ninja: $(VENV)/.ready
	$(CONFIGURE_TORCH) -B $(RACES) "-DSTATOR_SANITIZE_THREADS=$(RACE_ROOMS)" -DSTATOR_OUTPUT=$(CURDIR)/$(RACES)/python/stator
	touch $@

races-build: $(RACES)/build.ninja
	$(NINJA) $(RACES)
	@$(call link-package,$(RACES))

sanitize-threads: races-build
	PYTHONPATH=$(CURDIR)/$(RACES)/python $(IN_VENV)/python -m tests.torture.races $(ARGUMENTS)

# The rooms that handle memory themselves: frames, decoded code, plans, guards, the tracker.
SANITIZE_FAST_TESTS ?= tests/project/test_sanitizer.py tests/cpython tests/bytecode tests/effect tests/guard tests/track
sanitize-fast:
	$(MAKE) --no-print-directory sanitize TESTS="$(SANITIZE_FAST_TESTS)"

# Coverage of the C++ sources by the tests: a table of the files, the least covered first.
COVERED := build/coverage-$(TAG)
COVERAGE_VENV := .venv-coverage
.PHONY: coverage coverage-report
$(COVERAGE_VENV)/.ready: requirements/coverage.txt requirements/constraints.txt
	$(PYTHON) tools/environment.py $(COVERAGE_VENV) coverage
	touch $@

$(COVERED)/build.ninja: $(VENV)/.ready
	$(CONFIGURE_TORCH) -B $(COVERED) -DSTATOR_COVERAGE=ON -DSTATOR_OUTPUT=$(CURDIR)/$(COVERED)/python/stator
	touch $@

coverage: $(COVERED)/build.ninja $(COVERAGE_VENV)/.ready
	$(NINJA) $(COVERED)
	@$(call link-package,$(COVERED))
	find $(COVERED) -name '*.gcda' -delete
	PYTHONPATH=$(CURDIR)/$(COVERED)/python $(call pytest-with,$(COVERED)) -q $(TESTS)
	$(MAKE) --no-print-directory coverage-report

coverage-report: $(COVERAGE_VENV)/.ready
	$(COVERAGE_VENV)/bin/gcovr --root . --filter src/ --object-directory $(COVERED) $(COVERED) -j $(JOBS) \
	    --merge-mode-functions=separate --exclude-throw-branches --sort uncovered-percent --sort-reverse \
	    --txt $(COVERED)/coverage.txt --html-details $(COVERED)/html/index.html
	@cat $(COVERED)/coverage.txt
	@echo "Line by line: $(COVERED)/html/index.html"

# Random programs that are guided by the parts of the tracer that they reach: see tests/random_programs/guided.py.
GUIDED := build/guided-$(TAG)
GUIDE_ROOMS ?= trace;value;effect
.PHONY: guided-build guided
$(GUIDED)/build.ninja: $(VENV)/.ready
	$(CONFIGURE_TORCH) -B $(GUIDED) "-DSTATOR_GUIDE=$(GUIDE_ROOMS)" -DSTATOR_OUTPUT=$(CURDIR)/$(GUIDED)/python/stator
	touch $@

guided-build: $(GUIDED)/build.ninja
	$(NINJA) $(GUIDED)
	@$(call link-package,$(GUIDED))

guided: guided-build
	PYTHONPATH=$(CURDIR)/$(GUIDED)/python $(IN_VENV)/python -m tests.random_programs --guided $(ARGUMENTS)

# ---- Wheels: for the running Python and the torch beside it; tried in an environment that has nothing but torch ----------
# scikit-build-core would take the compiler that Python was built with; with that of `make build`, ccache has the objects.
WHEEL_VENV ?= .venv-wheel-$(TAG)
WHEEL_PYTHONS ?= 3.11 3.12 3.13
.PHONY: wheel test-wheel test-wheels
wheel: $(VENV)/.ready
	rm -f dist/stator-*-$(TAG)-*.whl
	CC=$${CC:-cc} CXX=$${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(IN_VENV)/python -m pip wheel --quiet \
	    --disable-pip-version-check --no-build-isolation --no-deps -C build-dir=build/wheel-$(TAG) --wheel-dir dist .
	@ls -l dist/stator-*-$(TAG)-*.whl

$(WHEEL_VENV)/.wheel-ready: requirements/torch.txt requirements/constraints.txt
	$(PYTHON) tools/environment.py $(WHEEL_VENV) torch
	touch $@

test-wheel: wheel $(WHEEL_VENV)/.wheel-ready
	$(WHEEL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall \
	    dist/stator-*-$(TAG)-*.whl
	cd $(WHEEL_VENV) && env -u PYTHONPATH bin/python -P $(CURDIR)/tools/try_wheel.py

# One environment for each Python, in which the wheel is built and tried. torch may come with gigabytes of CUDA libraries:
# the environments of the other Pythons are deleted again.
test-wheels:
	@for version in $(WHEEL_PYTHONS); do \
	    python=$$($(PYTHON) tools/find_python.py $$version); folder=.venv-wheel-$$version; \
	    if [ -z "$$python" ]; then echo "Python $$version is not on this machine: its wheel is not built."; continue; fi; \
	    $(MAKE) --no-print-directory test-wheel PYTHON=$$python VENV=$$folder WHEEL_VENV=$$folder || exit 1; \
	    rm -rf $$folder; \
	done

# ---- Documentation: an environment of its own, without torch; a dead link or anchor fails the build ---------------------
DOCS_VENV := .venv-docs
$(DOCS_VENV)/.ready: requirements/docs.txt requirements/constraints.txt
	$(PYTHON) tools/environment.py $(DOCS_VENV) docs
	touch $@

docs: $(DOCS_VENV)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --site-dir build/site
	@echo "The documentation is in build/site/index.html"

# ---- Reading and writing ----------------------------------------------------------------------------------------------
CXX_FILES = $(shell find src -name '*.cpp' -o -name '*.h' -o -name '*.c')
PYTHON_FILES := python tests bench demo examples tools cmake
format: $(VENV)/.lint-ready
	$(IN_VENV)/clang-format -i $(CXX_FILES)
	$(IN_VENV)/ruff format $(PYTHON_FILES)
	$(IN_VENV)/ruff check --fix $(PYTHON_FILES)

# clang-tidy is quick on the rooms that handle frames, references and memory themselves, and takes ten times as long on a
# file that includes PyTorch: here it looks at the former, and `make tidy` at everything.
TIDY_ROOMS := base cpython number bytecode guard graph effect trace capture run module
lint: $(VENV)/.lint-ready $(BUILD)/build.ninja
	@$(IN_VENV)/clang-format --dry-run --Werror $(CXX_FILES) && echo "clang-format: $(words $(CXX_FILES)) files"
	$(IN_VENV)/ruff format --check $(PYTHON_FILES)
	$(IN_VENV)/ruff check $(PYTHON_FILES)
	$(IN_VENV)/python tools/rooms.py
	$(IN_VENV)/mypy
	$(IN_VENV)/python tools/tidy.py $(BUILD) --jobs $(JOBS) $(wildcard $(foreach room,$(TIDY_ROOMS),src/$(room)/*.cpp src/$(room)/*/*.cpp))

tidy: $(VENV)/.lint-ready $(BUILD)/build.ninja
	$(IN_VENV)/python tools/tidy.py $(BUILD) --jobs $(JOBS) $(FILES)

clean:
	rm -rf build python/stator/*.so python/stator/_built_with.py

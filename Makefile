# make demo      set up, tune ds_cnn for this machine, build and verify the package, compare with ONNX Runtime
# make test      set up, lint, type-check, run the tests: of the long ones those of changed rooms and a quarter (BASE=COMMIT)
#                TORCH=1 adds the tests of PyTorch's models, and installs PyTorch; without it they are left out by name
# make test-all  the same with all long tests and 300 new examples a property, before an issue is closed (SEED=NUMBER)
# make system    install what the tests need from Debian (or print the line to type); no SSH server is started
# make durations run all tests on two idle cores, as root, and write what each file costs into tests/durations.json
# make durations-table  that file by room, by program, and the files that cost most
# make conformance   run the ONNX backend node tests through the emitted C, write SUPPORT.md
# make real-models   every ONNX file that the packages of tests/real_models.toml ship: built and verified
# make seeded-faults how often a wrong weight in each layer is seen by the tolerances of a model (FAULTS: paths of models)
# make reports       the scripts of ../shared/reports, one after the other on one core (REPORTS: names of cases)
# make axis-fuzz     2,000 graphs: operators with axes behind layers that turn channels last (AXIS_FUZZ=--help)
# make cuda-conformance  the same tests through CUDA kernels on the CPU (CUDA_CONFORMANCE=--help)
# make cuda-check    all CUDA kernels of the small models on the CPU, against sums in double (CUDA_CHECK=paths of models)
# make cuda-packages   packages of the small models: nvcc's words for four GPUs, same bytes twice, spills (CUDA_PACKAGES=)
# make cuda-proposals  how many random proposals compile within the target, and at what cost (CUDA_PROPOSALS=MODEL NUMBER)
# make bundle-kills    the runner of a bundle is killed 200 times at random moments; no sample may be lost or doubled
# make acceptance    check packages of whole models: warnings, memory, sanitizers, results, emulators, repeatability
# make soak          200 faults at random times befall boards while they are tuned on; nothing may be lost (SOAK=--help)
# make kills         a search is killed ten times at random moments; what was measured must all have counted (KILLS=--help)
# make hostile       a library of kernels that misbehave is tried every way, 20 times with other seeds (HOSTILE=--help)
# make nightly-gate  how often the nightly gate is wrong, over 1,000 simulated nights (NIGHTLY_GATE=--help)
# make nightly-farm    a night of two hosts on 8 boards, and the same on one: nothing may differ (NIGHTLY_FARM=--help)
# make nightly-faults  faults befall nights of both engines; nothing may be lost or doubled (NIGHTLY_FAULTS=--help)
# make nightly-causes  seeded nights: is the cause of a slower package named? (NIGHTLY_CAUSES=--help)
# make nightly-copies  a package beside its own copy on this machine, 200 times: at most one alarm (NIGHTLY_COPIES=PACKAGE)
# make nightly-slice   the tests of nights that CI has: 4 minutes on 2 idle cores
# make store-benchmark  the records database: 16 writers for a minute, and a million records (STORE_BENCHMARK=--help)
# make nightly-page  size and time of the page of 20 models on 10 boards after a year (NIGHTLY_PAGE=--help)
# make scaling       candidates a second on 1 to 16 boards; fails where 16 are not worth 90 % of that (SCALING=--help)
# make benchmark     packages beside ONNX Runtime, OpenVINO, ncnn, MNN and LiteRT (BENCHMARK_ARGS=--help)
# make firmware      MLPerf Tiny on emulated Cortex-M: outputs equal LiteRT's to the last bit (FIRMWARE_MODELS=--help)
# make firmware-benchmark  MLPerf Tiny on emulated Cortex-M: instructions, RAM, flash, bars (FIRMWARE=--help)
# make cuda-measure  packages on a GPU beside PyTorch and TensorRT, in steps of 8 minutes (CUDA_MODELS=paths of models)
# make cuda-torch    PyTorch's side of cuda-measure on the CPU, against ONNX Runtime (CUDA_TORCH=paths of models)
# make oracle        what the middle end makes of a corpus, frozen into a folder (ORACLE="freeze FOLDER", "compare A B", "doors")
# make search-benchmark  operators tuned with 64 trials, beside PyTorch (SEARCH_BENCHMARK=--help)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
DEMO_TIME ?= 5m
# A night per engine with faults, the store on both engines, 50 replayed nights, five causes, the page.
NIGHTLY_SLICE := farm/test_two_hosts.py farm/test_engines.py farm/test_page.py records/test_postgresql.py \
	farm/test_replayed_nights.py farm/test_cause.py farm/test_night_store.py records/test_records.py
# Test files run side by side; tests that time hold the lock of the measuring core. Much of a test is waiting for boards and
# processes, so there are twice as many workers as cores it is meant for.
JOBS ?= 4
DEMO_OUT := build/demo/ds_cnn

# What the rooms that changed are compared with: `make test` runs their long tests.
BASE ?= HEAD~1
# Where it is set, the tests that need PyTorch run as well.
TORCH ?=
WITH_TORCH = $(if $(TORCH),$(VENV)/.stamp-torch)
# `make test-all` tries new examples each time, and prints the seed that repeats them.
SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
IN_MEMORY = $(shell sh .ci/temporary-folder.sh)
# The threads of OpenBLAS spin before they sleep: 0.1 s of another test's core for each process that imports numpy.
ONE_THREAD = OPENBLAS_NUM_THREADS=1
SIDE_BY_SIDE = --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder
# Tests run make themselves, which is to know nothing of this one.
RUN_TESTS = env --unset=MAKEFLAGS --unset=MFLAGS --unset=MAKELEVEL $(ONE_THREAD) $(IN_MEMORY) sh .ci/once-more.sh $(BIN)/pytest $(SIDE_BY_SIDE)

.DELETE_ON_ERROR:
# Tests and nights start hundreds of processes. Each would compile edgetune again where the environment forbids bytecode.
export PYTHONDONTWRITEBYTECODE =
.PHONY: all demo test test-all try-system durations durations-table lint types pytest format schemas system conformance real-models reports axis-fuzz cuda-conformance cuda-check cuda-packages cuda-proposals bundle-kills cuda-measure cuda-torch acceptance soak kills hostile benchmark firmware firmware-benchmark oracle search-benchmark scaling nightly-gate nightly-farm nightly-faults nightly-causes nightly-copies nightly-slice nightly-page store-benchmark clean

all: test

# --- environments: a stamp per set of extras, renewed when the project file changes ---------------------------
$(VENV)/pyvenv.cfg:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-run: pyproject.toml | $(VENV)/pyvenv.cfg
	$(PIP) install --editable '.[nightly,verify]'
	touch $@

$(VENV)/.stamp-test: pyproject.toml | $(VENV)/pyvenv.cfg
	$(PIP) install --editable '.[test]'
	touch $@ $(VENV)/.stamp-run

$(VENV)/.stamp-torch: pyproject.toml | $(VENV)/.stamp-test
	$(PIP) install --editable '.[torch]'
	touch $@

# Pins of an extra, one by one.
extra = $$($(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]])' $(1))

# Peers one by one: one without a wheel for this machine leaves the others in the table.
$(VENV)/.stamp-bench: pyproject.toml | $(VENV)/.stamp-run
	for peer in $(call extra,bench); do $(PIP) install $$peer || echo "$$peer does not install here"; done
	for peer in $(call extra,bench-converters); do $(PIP) install --no-deps $$peer || echo "$$peer does not install here"; done
	touch $@

$(VENV)/.stamp-search-bench: pyproject.toml | $(VENV)/.stamp-run
	$(PIP) install $(call extra,search-bench)
	touch $@

# --- the main job -----------------------------------------------------------------------------------------------
demo: $(VENV)/.stamp-run
	PATH="$(CURDIR)/$(BIN):$$PATH" DEMO_TIME=$(DEMO_TIME) bash examples/demo.sh $(DEMO_OUT)

# --- checks -----------------------------------------------------------------------------------------------------
# Where tools may not be installed, the tests that need them are left out by name. The environment comes after them.
test: try-system
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory --jobs 2 types pytest

test-all: try-system $(WITH_TORCH)
	@$(MAKE) --no-print-directory lint types
	$(RUN_TESTS) --long all --hypothesis-profile all --hypothesis-seed $(SEED) $(PYTEST_FLAGS)

lint: $(VENV)/.stamp-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python .ci/rooms.py --check
	$(BIN)/python .ci/picture.py --check
	$(BIN)/python .ci/passes.py --check

# What mypy found in a file stands for all clones that have the same file.
types: $(VENV)/.stamp-test
	MYPY_CACHE_DIR="$${XDG_CACHE_HOME:-$$HOME/.cache}/edgetune/types" $(BIN)/mypy edgetune examples tests $(wildcard benchmarks)

pytest: $(VENV)/.stamp-test $(WITH_TORCH)
	$(RUN_TESTS) --long share --base '$(BASE)' $(PYTEST_FLAGS)

durations: $(VENV)/.stamp-test $(WITH_TORCH)
	$(ONE_THREAD) $(IN_MEMORY) $(BIN)/python -m tests.durations.run $(SIDE_BY_SIDE) --no-compile-cache $(PYTEST_FLAGS)

durations-table: $(VENV)/.stamp-test
	$(BIN)/python -m tests.durations.table

format: $(VENV)/.stamp-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schemas: $(VENV)/.stamp-run
	$(BIN)/python -m edgetune.config.schema schemas
	$(BIN)/python -m edgetune.farm.schema schemas
	$(BIN)/python -m edgetune.pipeline.schema schemas

system:
	@sh .ci/system.sh .ci/tools.txt $(PYTHON)

try-system:
	@sh .ci/system.sh .ci/tools.txt $(PYTHON) || echo "system: the tests that need what is missing are left out"

conformance: $(VENV)/.stamp-test
	$(BIN)/python tests/conformance/run.py

# REAL_MODELS takes the flags of tests/real_models.py, REPORTS the names of cases. Neither runs in CI.
real-models: $(VENV)/.stamp-test
	$(BIN)/python -m tests.real_models $(REAL_MODELS)

# FAULTS is a list of model files.
FAULTS ?= $(wildcard examples/models/*.onnx)
seeded-faults: $(VENV)/.stamp-test
	$(BIN)/python -m tests.pipeline.seeded_faults $(FAULTS)

reports: $(VENV)/.stamp-test
	$(BIN)/python -m tests.reports $(REPORTS)

axis-fuzz: $(VENV)/.stamp-test
	$(BIN)/python -m tests.axes.run $(AXIS_FUZZ)

cuda-conformance: $(VENV)/.stamp-test
	$(BIN)/python -m tests.conformance.cuda $(CUDA_CONFORMANCE)

# mobilenet_v2 is made first. CUDA_CHECK and CUDA_PACKAGES are models, and flags such as --precision fp16.
MOBILENET := build/models/mobilenet_v2.onnx
$(MOBILENET): | $(VENV)/.stamp-test
	$(BIN)/python examples/make_models.py $(@D) mobilenet_v2

CUDA_CHECK ?= $(wildcard examples/models/*.onnx) $(MOBILENET)
cuda-check: $(VENV)/.stamp-test $(MOBILENET)
	$(BIN)/python -m tests.cuda.table $(CUDA_CHECK)

CUDA_PACKAGES ?= $(CUDA_CHECK)
cuda-packages: $(VENV)/.stamp-test $(MOBILENET)
	$(BIN)/python -m tests.cuda.packages --cmake examples/models/ds_cnn.onnx
	$(BIN)/python -m tests.cuda.packages $(CUDA_PACKAGES)

CUDA_PROPOSALS ?= examples/models/resnet8.onnx 1000
cuda-proposals: $(VENV)/.stamp-test
	$(BIN)/python -m tests.cuda.proposals $(CUDA_PROPOSALS)

bundle-kills: $(VENV)/.stamp-test
	$(BIN)/python -m tests.bundle.soak 200

# Without a GPU, this makes the folder to carry to one, and shows what has come back. With one, it searches first. A model
# that is missing is named; the others are measured, and make fails.
CUDA_MODELS ?= examples/models/ds_cnn.onnx examples/models/resnet8.onnx $(addprefix build/models/,mobilenet_v2.onnx resnet50.onnx bert_base.onnx)
CUDA_FOLDER ?= build/cuda-measure
CUDA_TUNE ?= 60
CUDA_MEASURE ?=
PREPARE = $(BIN)/python -m benchmarks.cuda.prepare $(CUDA_FOLDER) --tune $(CUDA_TUNE) $(CUDA_MEASURE)
cuda-measure: $(VENV)/.stamp-test
	status=0; \
	$(PREPARE) $(CUDA_MODELS) || status=$$?; \
	$(PREPARE) --precision fp16 $(filter %resnet50.onnx %bert_base.onnx,$(CUDA_MODELS)) || status=$$?; \
	if test -e /dev/nvidia0; then $(BIN)/python $(CUDA_FOLDER)/measure.py || status=$$?; fi; \
	if test -e $(CUDA_FOLDER)/results.jsonl; then $(BIN)/python -m benchmarks.cuda.report $(CUDA_FOLDER) || status=$$?; fi; \
	exit $$status

# PyTorch's side of it, on this CPU against ONNX Runtime. CUDA_TORCH are models, and --python PYTHON.
CUDA_TORCH ?= examples/models/ds_cnn.onnx examples/models/resnet8.onnx
cuda-torch: $(VENV)/.stamp-search-bench
	$(BIN)/python -m benchmarks.cuda.torch_check $(CUDA_TORCH)

# Larger models are made first; ACCEPTANCE takes the flags of tests/acceptance/run.py.
acceptance: $(VENV)/.stamp-test
	test -f build/models/mobilenet_v2_int8.onnx || $(BIN)/python examples/make_models.py build/models
	$(BIN)/python tests/acceptance/run.py $(ACCEPTANCE)

soak: $(VENV)/.stamp-test
	$(BIN)/python tests/acceptance/soak.py $(SOAK)

kills: $(VENV)/.stamp-test
	$(BIN)/python tests/acceptance/kill9.py $(KILLS)

hostile: $(VENV)/.stamp-test
	$(BIN)/python -m tests.hostile.run $(HOSTILE)

benchmark: $(VENV)/.stamp-bench
	$(BIN)/python benchmarks/run.py $(BENCHMARK_ARGS)

firmware: $(VENV)/.stamp-test
	$(BIN)/python -m tests.firmware_models $(FIRMWARE_MODELS)

# FIRMWARE="--trials 300" tunes as well.
firmware-benchmark: $(VENV)/.stamp-run
	$(BIN)/python -m benchmarks.firmware $(FIRMWARE)

ORACLE ?= freeze build/oracle
oracle: $(VENV)/.stamp-test
	$(BIN)/python -m benchmarks.oracle $(ORACLE)

search-benchmark: $(VENV)/.stamp-search-bench
	$(BIN)/python -m benchmarks.search $(SEARCH_BENCHMARK)

scaling: $(VENV)/.stamp-test
	$(BIN)/python benchmarks/boards_scaling.py $(SCALING)

nightly-gate: $(VENV)/.stamp-test
	$(BIN)/python -m benchmarks.nightly.gate_errors --check $(NIGHTLY_GATE)

nightly-farm: $(VENV)/.stamp-test
	$(BIN)/python -m benchmarks.nightly.farm --check $(NIGHTLY_FARM)

nightly-faults: $(VENV)/.stamp-test
	$(BIN)/python -m benchmarks.nightly.faults --check $(NIGHTLY_FAULTS)

nightly-causes: $(VENV)/.stamp-test
	$(BIN)/python -m benchmarks.nightly.causes --check $(NIGHTLY_CAUSES)

nightly-copies: $(VENV)/.stamp-test
	$(BIN)/python -m benchmarks.nightly.copies --times 200 --check $(NIGHTLY_COPIES)

nightly-slice: $(VENV)/.stamp-test
	$(IN_MEMORY) $(BIN)/pytest $(SIDE_BY_SIDE) $(addprefix tests/,$(NIGHTLY_SLICE))

nightly-page: $(VENV)/.stamp-test
	$(BIN)/python -m benchmarks.nightly.page_size --check $(NIGHTLY_PAGE)

store-benchmark: $(VENV)/.stamp-test
	$(BIN)/python -m benchmarks.store --check $(STORE_BENCHMARK)

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

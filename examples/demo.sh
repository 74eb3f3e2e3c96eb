#!/usr/bin/env bash
# The main job, start to end: tune a keyword-spotting network for this machine, build and verify the C package,
# and print its latency beside ONNX Runtime's. `make demo` sets up and runs this.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/demo/ds_cnn}
model=examples/models/ds_cnn.onnx

edgetune tune "$model" --board host --time "${DEMO_TIME:-5m}" --db "$(dirname "$out")/records.db" -o "$out"
make -C "$out" lib selftest
edgetune verify "$out" --model "$model"
python examples/compare_onnxruntime.py "$out" "$model"

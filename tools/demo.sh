#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: ./dev demo [--backend auto|cpu|cuda] [--fresh] [--preset NAME]
#
# athanor's whole job on this machine, in demo/, with the model and the chats of examples/chat: makes the chats into
# tokens and holds a tenth of them out, measures the machine and the model, ranks plans under a device-memory cap in which
# replicated training does not fit, trains with the best one while it evaluates, and prints predicted beside measured.
#
# --backend  auto (default) takes a GPU where there is one, or two where there are more; the CPU trains in two processes
# --fresh    measures the machine and the model again, which is done once for each --backend
# --preset   takes the programs of another build than release; it builds the programs alone, ./dev build the rest
set -euo pipefail
source tools/common.sh

fresh=false preset=release backend=auto
while [[ $# -gt 0 ]]; do
  case $1 in
    --backend) backend=${2:?--backend needs auto, cpu or cuda} && shift ;;
    --backend=*) backend=${1#*=} ;;
    --fresh) fresh=true ;;
    --preset) preset=${2:?--preset needs a name} && shift ;;
    -h | --help) help_of tools/demo.sh && exit ;;
    *) die 2 "demo: unknown option '$1' (see ./dev demo --help)" ;;
  esac
  shift
done
[[ $backend =~ ^(auto|cpu|cuda)$ ]] || die 2 "demo: --backend is auto, cpu or cuda, not '$backend'"

model=examples/chat/model chats=examples/chat/chat.jsonl sequence=128 global_batch=8 steps=120
platform=demo/platform-$backend.json profile=demo/profile-$backend.json

# athanor's own words go to the terminal, and the command is shown first.
athanor() {
  say "athanor $*"
  "build/$preset/bin/athanor" "$@"
}

# Whether the plugin of the CUDA backend is worth its minutes of building: athanor looks for the same library.
may_use_gpu() {
  [[ $backend != cpu ]] && python3 -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null
}

build_programs() {
  local targets=(athanor athanor-sim athanor-calibrate athanor-train athanor-tokenize)
  configure "$preset"
  if may_use_gpu && grep -q '^build bin/libathanor-cuda.so:' "build/$preset/build.ninja"; then
    targets+=(athanor_cuda)
  fi
  build_preset "$preset" "${targets[@]}"
}

tokenize() {
  rm -rf demo/tokens
  ATHANOR_PYTHON=$(torch_python) athanor tokenize --model "$model" --data "$chats" --seq "$sequence" --val-share 0.1 \
    -o demo/tokens
}

# A profile that is older than the model was made of another one.
measure() {
  ! $fresh || rm -f "$platform" "$profile"
  [[ -s $platform ]] || athanor calibrate --backend "$backend" --quick -o "$platform"
  [[ $profile -nt $model/config.json ]] ||
    athanor profile --backend "$backend" --model "$model" --seq "$sequence" --micro-batches 1,2,4 -o "$profile"
}

# json_value EXPRESSION: of the object `of` that stdin holds.
json_value() { python3 -c "import json, sys; of = json.load(sys.stdin); print($1)"; }

# Halfway between what replicated training takes on one device and the least that any plan does. A share of the former
# could be less than any plan needs: on a GPU the workspaces of libraries take more than this model.
device_memory_cap() {
  local replicated least
  replicated=$(athanor simulate "${workload[@]}" --policy ddp --json | json_value 'of["peak_bytes"]["gpu"]')
  least=$(athanor tune "${workload[@]}" --pareto --json -o demo/plan.json |
    json_value 'min(plan["peak_bytes"]["gpu"] for plan in of["pareto"]["plans"])')
  echo $(((replicated + least) / 2))
}

bash tools/setup.sh
build_programs
mkdir -p demo
tokenize
measure

ranks=$(json_value 'min(2, of["num_devices"])' <"$platform")
workload=(--profile "$profile" --platform "$platform" --gpus "$ranks" --global-batch "$global_batch")
cap=$(device_memory_cap)
say "Device memory is capped at $cap bytes: too little for replicated training"
athanor tune "${workload[@]}" --gpu-memory "$cap" --top 8 -o demo/plan.json
rm -rf demo/run
athanor train --plan demo/plan.json --model "$model" --data demo/tokens --eval-data demo/tokens/validation \
  --steps "$steps" --lr 2e-3 --warmup-steps 20 --output demo/run --gpus "$ranks" --gpu-memory "$cap" \
  --checkpoint-every 40
athanor compare demo/run
python3 tools/demo_loss.py demo/run/metrics.jsonl
say "Everything is in demo/run"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: ./dev demo [--fresh] [--preset NAME]
#
# athanor's whole job on this machine, in demo/: measures the machine, profiles a small GPT-2-shaped model, ranks
# plans under a device-memory cap in which replicated training does not fit, trains with the best one in two
# processes on the repository's own documents, and prints predicted beside measured. The machine and the model are
# measured once; --fresh measures them again. --preset takes the programs of another build than release. It builds the
# programs alone and runs on the CPU backend, so it is the same with GPUs and without; ./dev build builds the rest.
set -euo pipefail
source tools/common.sh

fresh=false preset=release
while [[ $# -gt 0 ]]; do
  case $1 in
    --fresh) fresh=true ;;
    --preset) preset=${2:?--preset needs a name} && shift ;;
    -h | --help) help_of tools/demo.sh && exit ;;
    *) die 2 "demo: unknown option '$1' (see ./dev demo --help)" ;;
  esac
  shift
done

model=gpt2-tiny ranks=2 global_batch=8 steps=60
workload=(--profile demo/profile.json --platform demo/platform.json --gpus "$ranks" --global-batch "$global_batch")

# athanor's own words go to the terminal, and the command is shown first.
athanor() {
  say "athanor $*"
  "build/$preset/bin/athanor" "$@"
}

# Three fifths of what replicated training takes on one device.
device_memory_cap() {
  athanor simulate "${workload[@]}" --policy ddp --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["peak_bytes"]["gpu"] * 3 // 5)'
}

measure() {
  $fresh && rm -f demo/platform.json demo/profile.json
  [[ -s demo/platform.json ]] || athanor calibrate --backend cpu --quick -o demo/platform.json
  [[ -s demo/profile.json ]] ||
    athanor profile --backend cpu --model "$model" --seq 128 --micro-batches 1,2,4 -o demo/profile.json
}

write_corpus() {
  source_files LICENSE '*.md' | sort -z | xargs -0 cat >demo/corpus.txt
}

bash tools/setup.sh
build_preset "$preset" athanor athanor-sim athanor-calibrate athanor-train
mkdir -p demo
measure
write_corpus

cap=$(device_memory_cap)
say "Device memory is capped at $cap bytes: three fifths of what replicated training needs"
athanor tune "${workload[@]}" --gpu-memory "$cap" --top 8 -o demo/plan.json
rm -rf demo/run
athanor train --plan demo/plan.json --model "$model" --data demo/corpus.txt --steps "$steps" --output demo/run \
  --gpus "$ranks" --gpu-memory "$cap" --checkpoint-every 20
athanor compare demo/run
python3 tools/demo_loss.py demo/run/metrics.jsonl
say "Everything is in demo/run"

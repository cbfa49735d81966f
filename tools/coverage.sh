#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tools/coverage.sh
#
# Prints line coverage of sim/ and executor/ from the last run of the preset coverage, and fails below the floors.
set -euo pipefail
source tools/common.sh

# Code for GPUs runs only where there is one.
gpu=()
nvidia-smi -L >/dev/null 2>&1 || gpu=(--exclude executor/cuda/)

# report FOLDER FLOOR. Threads lose counts, so that gcov may find less than none of a line: it is left out.
report() {
  say "Line coverage of $1/ (at least $2 %)"
  gcovr --root . --object-directory build/coverage --filter "$1/" "${gpu[@]}" --exclude-throw-branches \
    --exclude-unreachable-branches --gcov-ignore-parse-errors -j "$jobs" --fail-under-line "$2" build/coverage
}

report sim 90
if [[ -d build/coverage/executor ]]; then
  report executor 80
fi

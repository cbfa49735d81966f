#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tools/fuzz.sh SECONDS
#
# Runs every libFuzzer target: readers of what people and other programs bring for SECONDS, those of athanor's own files
# for a sixth of it. Seeds are in tests/fuzz/corpus/NAME (of fuzz_NAME); what is found stays in
# build/asan/corpus/TARGET, and an input that fails in build/asan/TARGET-crash-*.
set -euo pipefail
source tools/common.sh

seconds=${1:?seconds per target}
build_preset asan athanor_fuzzers

fuzz() {
  local target=$1 name corpus seeds limit=$seconds
  name=$(basename "$target")
  case ${name#fuzz_} in
    plan | platform | profile | rates | trace) limit=$(((seconds + 5) / 6)) ;;
  esac
  corpus=build/asan/corpus/$name seeds=tests/fuzz/corpus/${name#fuzz_}
  mkdir -p "$corpus"
  [[ -d $seeds ]] || seeds=
  "$target" -max_total_time="$limit" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/asan/$name-" "$corpus" ${seeds:+"$seeds"} >"build/asan/$name.log" 2>&1 ||
    { tail -n 40 "build/asan/$name.log" >&2 && die 1 "$name failed; log in build/asan/$name.log"; }
  grep -E 'number_of_executed_units' "build/asan/$name.log" | sed "s/^stat::/    $name: /" >&2
}
export -f fuzz die
export seconds

shopt -s nullglob
targets=(build/asan/fuzz/*)
[[ ${#targets[@]} -gt 0 ]] || die 1 "no fuzz targets were built"
say "Fuzzing ${#targets[@]} targets, up to $seconds s each"
# shellcheck disable=SC2016 # expanded by the inner bash
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$jobs" bash -euo pipefail -c 'fuzz "$1"' fuzz

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: ./dev bench [FILTER]
#
# Builds the preset release and runs every benchmark program, or those whose name contains FILTER. Results are printed
# and written to build/release/bench/NAME.json.
set -euo pipefail
source tools/common.sh

case ${1:-} in
  -h | --help) help_of tools/bench.sh && exit ;;
  -*) die 2 "bench: unknown option '$1' (see ./dev bench --help)" ;;
esac
bash tools/setup.sh
build_preset release

shopt -s nullglob
found=false
for program in build/release/bench/*"${1:-}"*; do
  [[ -x $program && ! -d $program ]] || continue
  found=true
  say "$(basename "$program")"
  "$program" --benchmark_out="$program.json" --benchmark_out_format=json
done
$found || die 1 "no benchmark program matches '${1:-}' in build/release/bench"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: ./dev build [--preset NAME] [TARGET..]
#
# Configures build/NAME where needed and builds it. Presets: release (default), dev, asan, coverage, sim-only
# (CMakePresets.json). Programs are in build/NAME/bin. The preset sim-only builds its programs only; TARGET all adds the
# tests.
set -euo pipefail
source tools/common.sh

preset=release
targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --preset) preset=${2:?--preset needs a name} && shift ;;
    --preset=*) preset=${1#*=} ;;
    -h | --help) help_of tools/build.sh && exit ;;
    -*) die 2 "build: unknown option '$1' (see ./dev build --help)" ;;
    *) targets+=("$1") ;;
  esac
  shift
done
for program in cmake ninja; do
  command -v "$program" >/dev/null || die 2 "$program is missing. Run ./dev setup first."
done

build_preset "$preset" "${targets[@]}"
say "Built: build/$preset"

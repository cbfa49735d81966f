#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: ./dev lint [--quick] [--torch] [--sources]
#
# Spelling, shell scripts, the layers' include rule, prose and clang-tidy. What was clean and has not changed is not
# checked again. --quick leaves clang-tidy out, --torch includes the sources that use LibTorch (a minute each). --sources
# leaves tests out, and does not compile each source alone, for a missing include.
set -euo pipefail
source tools/common.sh

quick=false tidy_options=(--alone)
case ${1:-} in
  '') ;;
  --quick) quick=true ;;
  --torch) tidy_options+=(--torch) ;;
  --sources) tidy_options=(--no-tests) ;;
  -h | --help) help_of tools/lint.sh && exit ;;
  *) die 2 "lint: unknown option '$1' (see ./dev lint --help)" ;;
esac
for program in codespell shellcheck clang-tidy-19; do
  command -v "$program" >/dev/null || die 2 "$program is missing. Run ./dev setup first."
done

say "codespell, shellcheck, layers, prose"
source_files . | xargs -0 codespell
shellcheck -x dev .ci/run tools/*.sh
source_files '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs -0 python3 tools/layers.py
source_files '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.md' | xargs -0 python3 tools/prose.py
! $quick || exit 0

# Nothing is built there, so CMake would not notice new sources by itself.
rm -f build/tidy/.configured
configure tidy
say "clang-tidy"
python3 tools/tidy.py --build build/tidy --jobs "$jobs" "${tidy_options[@]}"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: ./dev format [--check]
#
# Formats every C++ file with clang-format 19. --check changes nothing and fails where one differs.
set -euo pipefail
source tools/common.sh

mode=-i
case ${1:-} in
  '') ;;
  --check) mode='--dry-run -Werror' ;;
  -h | --help) help_of tools/format.sh && exit ;;
  *) die 2 "format: unknown option '$1' (see ./dev format --help)" ;;
esac
command -v clang-format-19 >/dev/null || die 2 "clang-format-19 is missing. Run ./dev setup first."

say "clang-format ${mode}"
# shellcheck disable=SC2086 # two words in --check
source_files '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs -0 -r -n 16 -P "$jobs" clang-format-19 $mode

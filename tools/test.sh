#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: ./dev test [--tidy] [--sanitize] [--threads] [--fuzz[=SECONDS]] [--coverage] [--package] [--all] [--again]
#
# Sets up what is missing, checks format, spelling and layers, builds the preset dev, runs every test and every notebook. A
# stage that passed before on the same files is not run again.
#
# --tidy      also runs clang-tidy on what is not a test (./dev lint: on everything)
# --sanitize  also builds with address and undefined-behaviour sanitizers and runs every test that is not slow
# --threads   also runs the tests of lanes, collectives and plans on CPU ranks under ThreadSanitizer
# --fuzz      also runs each libFuzzer target (60 seconds; readers of athanor's own files 10)
# --coverage  runs every test in the preset coverage instead of dev, prints line coverage, and fails below 90 % of
#             sim/ or 80 % of executor/
# --package   also makes the packages from the tested build, installs each in a clean environment and tries it
# --all       all of these but --threads
# --again     runs every stage, passed before or not
set -euo pipefail
source tools/common.sh

tidy=false sanitize=false threads=false coverage=false package=false again=false fuzz_seconds=0
for argument in "$@"; do
  case $argument in
    --tidy) tidy=true ;;
    --sanitize) sanitize=true ;;
    --threads) threads=true ;;
    --fuzz) fuzz_seconds=60 ;;
    --fuzz=*) fuzz_seconds=${argument#*=} ;;
    --coverage) coverage=true ;;
    --package) package=true ;;
    --all) tidy=true sanitize=true coverage=true package=true fuzz_seconds=60 ;;
    --again) again=true ;;
    -h | --help) help_of tools/test.sh && exit ;;
    *) die 2 "test: unknown option '$argument' (see ./dev test --help)" ;;
  esac
done
[[ $fuzz_seconds =~ ^[0-9]+$ ]] || die 2 "test: --fuzz=$fuzz_seconds is not a number of seconds"

run_tests() {
  build_preset "$1"
  say "Testing $1"
  ctest --preset "$1" --parallel "$jobs"
}

# Counters of earlier runs would count too.
run_with_coverage() {
  configure sim-only # it has no sources of its own, so it is not built
  [[ ! -d build/coverage ]] || find build/coverage -name '*.gcda' -delete
  run_tests coverage
  bash tools/coverage.sh
}

# ThreadSanitizer does not start where the kernel places programs at random. LibTorch and MPI are not instrumented.
run_with_thread_sanitizer() {
  build_preset tsan
  say "Testing tsan"
  setarch -R ctest --preset tsan --parallel "$jobs"
}

run_notebooks() {
  local status=0
  build_preset "$1" athanor athanor-sim
  say "Notebooks"
  ATHANOR_SIM=$PWD/build/$1/bin/athanor-sim bash tools/notebooks.sh || status=$?
  if [[ $status -eq 4 ]]; then
    say "The notebooks were skipped: their packages could not be installed"
  elif [[ $status -ne 0 ]]; then
    return "$status"
  fi
}

# The programs of a build with coverage are packed as well as any others, and a release build would take a quarter of an hour.
check_packages() {
  local status=0
  bash tools/package.sh --build "build/$1" --check || status=$?
  if [[ $status -eq 4 ]]; then
    say "Packages were skipped: what makes them could not be taken from PyPI"
  elif [[ $status -ne 0 ]]; then
    return "$status"
  fi
}

check_style() {
  bash tools/format.sh --check
  bash tools/lint.sh --quick
}

bash tools/setup.sh
$again && rm -rf .cache/passed
once style check_style
if $tidy; then
  once tidy bash tools/lint.sh --sources
fi
if $coverage; then
  once coverage run_with_coverage
  once notebooks run_notebooks coverage
else
  once dev run_tests dev
  once notebooks run_notebooks dev
fi
if $package; then
  once package check_packages "$($coverage && echo coverage || echo dev)"
fi
if $sanitize; then
  once asan run_tests asan
fi
if $threads; then
  once tsan run_with_thread_sanitizer
fi
if [[ $fuzz_seconds -gt 0 ]]; then
  once "fuzz-$fuzz_seconds" bash tools/fuzz.sh "$fuzz_seconds"
fi
say "All tests passed"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: ./dev setup [--sim-only]
#
# Installs what is missing on Debian 12 or Ubuntu 24.04, from the package sources that the system
# already uses, and LibTorch (PyPI: torch 2.11) into .venv. A Python that has torch 2.11 is used as
# it is: ATHANOR_PYTHON, an active virtual environment, or python3. Readers that tests load exported
# files with go into .cache/readers, what runs the notebooks into .cache/notebooks, the chart library of
# athanor report into .cache/charts. Takes a second when all is there.
#
# --sim-only  without LibTorch and MPI: enough for the simulator and the tuner
set -euo pipefail
source tools/common.sh
source tools/packages.sh

sim_only=false
for argument in "$@"; do
  case $argument in
    --sim-only) sim_only=true ;;
    -h | --help) help_of tools/setup.sh && exit ;;
    *) die 2 "setup: unknown option '$argument' (see ./dev setup --help)" ;;
  esac
done

install_torch() {
  local python attempt
  python=$(base_python)
  # Python compiles what is imported when it is; pip would compile all of it, most of it in vain.
  say "Installing LibTorch and the reference packages into .venv (about 5 GB, some minutes)"
  .venv/bin/python -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear .venv
  for attempt in 1 2 3; do
    if .venv/bin/python -m pip install --disable-pip-version-check --retries 10 \
      --timeout 120 --progress-bar off --no-compile -r tools/requirements.txt >&2; then
      return
    fi
    say "pip failed (attempt $attempt of 3)"
    sleep $((attempt * 5))
  done
  die 1 "LibTorch could not be installed. Run ./dev setup again, or set ATHANOR_PYTHON to a Python with torch 2.11."
}

# Tests compare with the packages of requirements.txt and are skipped where one is missing.
name_missing_python_packages() {
  "$1" - <<'PYTHON'
import importlib.util, sys
missing = [n for n in ("numpy", "safetensors", "transformers") if not importlib.util.find_spec(n)]
if missing:
    print(f"    {sys.executable} lacks {', '.join(missing)}: tests that need them will be skipped")
PYTHON
}

install_missing_packages "$sim_only"
$sim_only || install_optional_packages
install_beside charts "$(python_with_pip)"
if ! $sim_only; then
  if ! torch_python >/dev/null; then
    install_torch
  fi
  python=$(torch_python) || die 1 "torch 2.11 is not importable from .venv after installation"
  name_missing_python_packages "$python" >&2
  install_beside readers "$python"
  install_beside notebooks "$python"
  say "Set up: LibTorch from $python"
else
  say "Set up for the simulator"
fi

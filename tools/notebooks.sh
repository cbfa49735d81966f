#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: ./dev notebooks [--write] [NAME..]
#
# Executes the notebooks and compares what they print with what is committed. --write stores the new outputs instead.
# Uses the programs that were built last, or builds the preset sim-only. ATHANOR_SIM names the athanor-sim of others.
set -euo pipefail
source tools/common.sh

case ${1:-} in
  -h | --help) help_of tools/notebooks.sh && exit ;;
esac
python=$(torch_python || command -v python3)
install_beside notebooks "$python"
compgen -G 'build/*/bin/athanor-sim' >/dev/null || [[ -n ${ATHANOR_SIM:-} ]] || build_preset sim-only
PYTHONPATH=$PWD/.cache/notebooks${PYTHONPATH:+:$PYTHONPATH} exec "$python" tools/notebooks.py "$@"

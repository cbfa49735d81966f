# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the verbs share. They run in the repository root, under set -euo pipefail.

export CCACHE_DIR=${CCACHE_DIR:-$PWD/.cache/ccache}
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# What ccache must overlook to keep objects that use a precompiled header.
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
# Open MPI refuses root and more ranks than cores unless told otherwise; containers need both.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

jobs=${ATHANOR_JOBS:-$(nproc)}

say() {
  if [[ -t 2 && -z ${NO_COLOR:-} ]]; then
    printf '\033[1m==> %s\033[0m\n' "$*" >&2
  else
    printf '==> %s\n' "$*" >&2
  fi
}

# die CODE MESSAGE: 1 = failed, 2 = the user has to change something.
die() {
  printf 'dev: %s\n' "$2" >&2
  exit "$1"
}

# help_of FILE: the comment block after its SPDX line is its help text.
help_of() { sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$1"; }

# Prints the Python that has torch 2.11, or returns 1. See tools/setup.sh for what makes one.
torch_python() {
  local python
  for python in "${ATHANOR_PYTHON:-}" .venv/bin/python "${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python}" python3; do
    if [[ -n $python ]] && has_torch "$python"; then
      "$python" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  return 1
}

has_torch() {
  "$1" -c 'import importlib.metadata as m, sys
sys.exit(not m.version("torch").startswith("2.11."))' 2>/dev/null
}

# The interpreter that .venv is made from.
base_python() {
  local python=${ATHANOR_PYTHON:-python3}
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die 2 "$python is older than Python 3.10. Set ATHANOR_PYTHON to a newer one."
  echo "$python"
}

# A Python that has pip: the one for .venv, or a virtual environment beside it.
python_with_pip() {
  local python
  python=$(base_python)
  if ! "$python" -m pip --version >/dev/null 2>&1; then
    [[ -x .cache/pip/bin/python ]] || "$python" -m venv .cache/pip
    python=.cache/pip/bin/python
  fi
  echo "$python"
}

# install_beside NAME PYTHON: the packages of tools/requirements-NAME.txt into .cache/NAME, beside the interpreter, which
# may not be ours to change.
install_beside() {
  local folder=.cache/$1 requirements=tools/requirements-$1.txt python=$2 stamp
  stamp=$("$python" -c 'import sys; print(sys.version)' && cat "$requirements")
  [[ $(cat "$folder/stamp" 2>/dev/null) != "$stamp" ]] || return 0
  say "Installing $requirements into $folder"
  rm -rf "$folder"
  # DeepSpeed is there as source alone; its operators would be compiled at first use.
  if DS_BUILD_OPS=0 "$python" -m pip install --disable-pip-version-check --retries 10 --timeout 120 \
    --progress-bar off --no-compile --no-deps --target "$folder" -r "$requirements" >&2; then
    echo "$stamp" >"$folder/stamp"
  else
    say "They could not be installed: what needs them will be skipped"
  fi
}

# configure PRESET: runs CMake where the build folder lacks it or was configured with other arguments.
configure() {
  local preset=$1 folder=build/$1 python arguments
  python=$(torch_python || true)
  arguments="cmake --preset $preset -DATHANOR_TORCH_PYTHON=$python"
  if [[ -f $folder/build.ninja && ! CMakePresets.json -nt $folder/build.ninja &&
    $(cat "$folder/.configured" 2>/dev/null) == "$arguments" ]]; then
    return
  fi
  say "Configuring $folder"
  cmake --preset "$preset" -DATHANOR_TORCH_PYTHON="$python" >&2
  echo "$arguments" >"$folder/.configured"
}

# build_preset PRESET [TARGET..]
build_preset() {
  local preset=$1
  shift
  configure "$preset"
  say "Building $preset ($jobs jobs)"
  cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"} >&2
}

# source_files PATHSPEC..: files of the checkout, tracked or not yet, NUL-separated.
source_files() { git ls-files -z --cached --others --exclude-standard --deduplicate -- "$@"; }

# once NAME COMMAND..: runs the command unless it passed before on the very same files.
once() {
  local name=$1 stamp=.cache/passed/$1 state
  shift
  state=$(tree_state)
  if [[ -n $state && $(cat "$stamp" 2>/dev/null) == "$state" ]]; then
    say "$name: passed before, and no file has changed since (--again runs it)"
    return
  fi
  rm -f "$stamp"
  "$@"
  mkdir -p .cache/passed
  echo "$state" >"$stamp"
}

# A hash of the checkout's files and of the Python in use; empty outside a git checkout.
tree_state() {
  git rev-parse --git-dir >/dev/null 2>&1 || return 0
  {
    torch_python || true
    source_files . | xargs -0 sha256sum 2>/dev/null || true
  } | sha256sum
}

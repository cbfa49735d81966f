#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tools/simgrid.sh FOLDER
#
# Builds SimGrid's library into FOLDER from its source package on PyPI, in the version of this system's (some minutes on two
# cores; a second when it is there). Debian's own needs ns-3 and the GNU Scientific Library, which are under the GPL: a wheel
# that carried them would be, too. This one is under the LGPL and needs neither.
set -euo pipefail
source tools/common.sh

folder=${1:?folder for the library}
version=$(pkg-config --modversion simgrid) || die 2 "SimGrid is missing. Run ./dev setup --sim-only first."
[[ $(cat "$folder/version" 2>/dev/null) != "$version" ]] || exit 0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say "Taking the source of SimGrid $version"
"$(python_with_pip)" -m pip download --disable-pip-version-check --quiet --retries 10 --no-deps \
  --no-binary simgrid --dest "$scratch" "simgrid==$version" >&2 ||
  die 4 "the source of SimGrid $version could not be taken from PyPI"
tar -xzf "$scratch"/simgrid-*.tar.gz -C "$scratch" --strip-components 1

say "Building SimGrid $version ($jobs jobs)"
# Its configuration leaves files in the current folder.
(cd "$scratch" && cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS=-w -DCMAKE_C_FLAGS=-w \
  -Denable_smpi=OFF -Denable_fortran=OFF -Denable_python=OFF -Denable_ns3=OFF -Denable_java=OFF \
  -Denable_model-checking=OFF -Denable_documentation=OFF -Denable_lto=OFF >log 2>&1) ||
  { tail -n 20 "$scratch/log" >&2 && die 1 "SimGrid could not be configured"; }
cmake --build "$scratch/build" --parallel "$jobs" --target simgrid >"$scratch/log" 2>&1 ||
  { tail -n 20 "$scratch/log" >&2 && die 1 "SimGrid could not be built"; }
mkdir -p "$folder"
strip --strip-unneeded -o "$folder/libsimgrid.so.$version" "$scratch/build/lib/libsimgrid.so.$version"
{
  echo "This is SimGrid $version. Its source is the source package simgrid $version of PyPI; tools/simgrid.sh of athanor builds it."
  echo
  cat "$scratch/LICENSE-LGPL-2.1"
} >"$folder/LICENSE-LGPL-2.1"
echo "$version" >"$folder/version"

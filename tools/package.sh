#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: ./dev package [--sim-only] [--build FOLDER] [--check]
#
# Sets up what is missing, and makes into dist/, from a release build:
#   the wheel athanor-sim   the simulator and the tuner; needs nothing
#   the wheel athanor       the programs that train and measure; needs the wheel athanor-sim, torch 2.11, and Open MPI
#   a Debian package        of the simulator, for the system that it is made on
# Nothing is published. The wheels carry their shared libraries and the licences of these. SimGrid's is built for them from
# its source, once, which takes some minutes (tools/simgrid.sh). No Debian package has LibTorch 2.11 with CUDA 13, so that
# the trainer is a wheel alone.
#
# --sim-only      without the wheel athanor: needs no LibTorch
# --build FOLDER  takes the programs of a finished build, such as build/coverage
# --check         also installs each in a clean environment, tries it, and removes it (tools/package_check.sh)
# Exit code 4: what packages are made with could not be taken from PyPI.
set -euo pipefail
source tools/common.sh

sim_only=false check=false build=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --sim-only) sim_only=true ;;
    --build) build=${2:?--build needs a folder} && shift ;;
    --build=*) build=${1#*=} ;;
    --check) check=true ;;
    -h | --help) help_of tools/package.sh && exit ;;
    *) die 2 "package: unknown option '$1' (see ./dev package --help)" ;;
  esac
  shift
done
if [[ -z $build ]]; then
  setup_options=()
  ! $sim_only || setup_options=(--sim-only)
  bash tools/setup.sh "${setup_options[@]}"
fi
for program in cmake cpack ninja strip dpkg-shlibdeps; do
  command -v "$program" >/dev/null || die 2 "$program is missing. Run ./dev setup first (Debian: dpkg-dev)."
done

version=$(sed -n 's/^project(athanor VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
python=$(python_with_pip)
stage=build/package

# make_wheel NAME COMPONENT: puts the programs of a component of the build into a wheel.
make_wheel() {
  say "Making the wheel $1"
  rm -rf "${stage:?}/$2"
  cmake --install "$build" --component "$2" --strip --prefix "$PWD/$stage/$2" >/dev/null
  PYTHONPATH=$PWD/.cache/package PATH=$PWD/.cache/package/bin:$PATH LD_LIBRARY_PATH=$PWD/.cache/simgrid \
    "$python" tools/wheel.py "$1" "$version" "$stage/$2" dist
}

make_debian_package() {
  say "Making the Debian package"
  rm -rf "${stage:?}/deb"
  cpack --config "$build/CPackConfig.cmake" -G DEB -B "$PWD/$stage/deb" >"$stage/cpack.log" ||
    { cat "$stage/cpack.log" >&2 && die 1 "the Debian package could not be made"; }
  cp "$stage"/deb/*.deb dist
}

if [[ -z $build ]]; then
  preset=release
  $sim_only && preset=sim-only
  build_preset "$preset" athanor_programs
  build=build/$preset
fi
[[ -x $build/bin/athanor-sim ]] || die 2 "$build has no bin/athanor-sim. Build it first."
install_beside package "$python"
[[ -f .cache/package/stamp ]] || die 4 "the packages of tools/requirements-package.txt could not be installed"
bash tools/simgrid.sh .cache/simgrid

rm -rf dist
mkdir -p dist "$stage"
make_wheel athanor-sim simulator
if ! $sim_only && [[ -x $build/bin/athanor-train ]]; then
  make_wheel athanor trainer
elif ! $sim_only; then
  say "$build has no trainer, so there is no wheel athanor (cmake says what it lacks)"
fi
make_debian_package
ls -sh dist >&2
if $check; then
  bash tools/package_check.sh
fi

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tools/package_check.sh
#
# Installs what ./dev package has put into dist/, each in a clean environment: wheels in a new virtual environment, without a
# package index and without environment variables; the Debian package in a new root of this release, which mmdebstrap fills
# with the least that apt runs on and with what the package depends on. Runs the README's first command as it is written,
# and removes it again: nothing may be left. torch itself, which takes minutes to install, is linked into the environment
# from the Python that has it. Where no new root can be made (no mounts, no package source), the Debian package is tried in
# a folder of its own, on the libraries of this system.
set -euo pipefail
source tools/common.sh

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
repository=$PWD dist=$PWD/dist

# clean FOLDER COMMAND..: runs a command in the scratch folder with nothing but a PATH. A build with coverage must not add to
# the counts of its tests.
clean() {
  local folder=$1
  shift
  (cd "$scratch" && env -i PATH="$folder:/usr/bin:/bin" HOME="$scratch" \
    GCOV_PREFIX="$scratch/counts" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive "$@")
}

# fails_with CODE COMMAND..
fails_with() {
  local wanted=$1 code=0
  shift
  "$@" >"$scratch/output" 2>&1 || code=$?
  [[ $code -eq $wanted ]] || die 1 "'$*' exited with $code instead of $wanted: $(tail -n 5 "$scratch/output")"
}

# readme_command: what the README's first screen says behind the installation.
readme_command() { sed -n '/^pip install dist/,/^```$/{/^athanor /p}' README.md; }

# check_plan TEXT: what the README's command printed. The page shows a part of it.
check_plan() {
  grep -q '^tokens/s' <<<"$1" || die 1 "$(readme_command) said: $1"
  sed -n '/^pip install dist/,/^That is/{/^[a-z/ ]*   /p}' README.md | while read -r line; do
    grep -qxF "$line" <<<"$1" || die 1 "README.md is out of date: $line"
  done
}

# try_simulator FOLDER: the program of that folder plans for a machine that it knows by name.
try_simulator() {
  local command plan
  command=$(readme_command)
  [[ -n $command ]] || die 1 "README.md has no command behind pip install"
  clean "$1" athanor --version >&2
  plan=$(clean "$1" sh -c "$command -o plan.json")
  check_plan "$plan"
  clean "$1" athanor show memory plan.json >/dev/null
}

# try_python FOLDER [-k CASES]: `import athanor` of that environment passes its tests.
try_python() {
  local folder=$1
  shift
  clean "$folder" "$folder/python" "$repository/tests/python/test_api.py" "$@" >"$scratch/output" 2>&1 ||
    die 1 "import athanor: $(cat "$scratch/output")"
}

# nothing_left FOLDER: no file that has athanor in its path.
nothing_left() {
  local left
  left=$(find "$1" -path '*athanor*' -not -type d)
  [[ -z $left ]] || die 1 "after its removal there is still $left"
}

check_simulator_wheel() {
  say "Checking the wheel athanor-sim"
  python3 -m venv "$scratch/sim"
  local bin=$scratch/sim/bin start=$SECONDS
  "$bin/pip" install --quiet --disable-pip-version-check --no-index "$dist"/athanor_sim-*.whl
  try_simulator "$bin"
  say "Installed and tuned in $((SECONDS - start)) s"
  try_python "$bin"
  if ldd "$scratch"/sim/lib/python*/site-packages/athanor/bin/athanor-sim | grep -E 'libns3|libgsl'; then
    die 1 "the wheel needs a library under the GPL"
  fi
  fails_with 1 clean "$bin" athanor doctor # it cannot train
  grep -q '^blocks  train' "$scratch/output" || die 1 "athanor doctor does not say that training is missing"
  "$bin/pip" uninstall --quiet --yes athanor-sim
  nothing_left "$scratch/sim"
}

check_trainer_wheel() {
  say "Checking the wheel athanor"
  local python torch_site bin=$scratch/full/bin name site
  python3 -m venv "$scratch/full"
  site=$(echo "$scratch"/full/lib/python*/site-packages)
  python=$(torch_python) || die 2 "no Python has torch 2.11 to link. Run ./dev setup."
  torch_site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  for name in torch nvidia; do
    [[ ! -d $torch_site/$name ]] || ln -s "$torch_site/$name" "$site/$name"
  done
  "$bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$dist"/athanor*.whl
  try_simulator "$bin"
  try_python "$bin" -k Machine # it measures, tunes, trains and compares
  clean "$bin" athanor doctor >"$scratch/output" || die 1 "athanor doctor: $(cat "$scratch/output")"
  "$bin/pip" uninstall --quiet --yes athanor athanor-sim
  nothing_left "$scratch/full"
}

# check_in_new_root CODENAME SITE: installs the package into a new root of that release from the packages of SITE, tries
# and purges it. Returns 4 where the root could not be made.
check_in_new_root() {
  local status=0 package
  package=$(echo "$dist"/athanor-sim_*.deb)
  cat >"$scratch/hook" <<HOOK
set -eu
touch '$scratch/made'
cp '$package' "\$1/tmp/athanor.deb"
chroot "\$1" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends /tmp/athanor.deb
inside() { chroot "\$root" env -i PATH=/usr/bin:/bin HOME=/tmp GCOV_PREFIX=/tmp/counts sh -c "cd /tmp && \$1"; }
root=\$1
inside 'athanor --version'
inside '$(readme_command) -o plan.json' >'$scratch/plan'
inside 'athanor show memory plan.json' >/dev/null
chroot "\$root" dpkg --purge athanor-sim
cd "\$root"
find bin/ etc home lib/ opt root sbin/ usr var -path '*athanor*' -not -type d >'$scratch/left'
HOOK
  mmdebstrap --quiet --variant=apt --format=null \
    --customize-hook="sh $scratch/hook \"\$1\"" "$1" - "$2" >"$scratch/output" 2>&1 || status=$?
  [[ -f $scratch/made ]] || return 4
  [[ $status -eq 0 ]] || die 1 "in a new root: $(tail -n 20 "$scratch/output")"
  check_plan "$(cat "$scratch/plan")"
  [[ ! -s $scratch/left ]] || die 1 "after its removal there is still $(cat "$scratch/left")"
}

check_debian_package() {
  say "Checking the Debian package in a new root"
  local codename site status=0
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  # shellcheck disable=SC2016 # apt's own placeholder
  site=$(apt-get indextargets --format '$(SITE)' "Codename: $codename" 'Created-By: Packages' | head -n 1)
  check_in_new_root "$codename" "$site" || status=$?
  if [[ $status -eq 4 ]]; then
    say "No new root can be made here: $(tail -n 2 "$scratch/output")"
    check_in_folder
  fi
}

# The folder has no libraries: those of this system serve.
check_in_folder() {
  say "Checking the Debian package in a folder"
  local root=$scratch/root
  mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info"
  touch "$root/var/lib/dpkg/status"
  apt-get install --simulate --quiet --quiet "$dist"/athanor-sim_*.deb >/dev/null ||
    die 1 "this system's sources do not have what the package depends on"
  if [[ $(id -u) != 0 ]]; then
    say "dpkg installs for root alone: the package is unpacked instead"
    dpkg-deb --extract "$dist"/athanor-sim_*.deb "$root"
    try_simulator "$root/usr/bin"
    return
  fi
  # The folder has no libraries, so dpkg is told that they are elsewhere.
  dpkg --root="$root" --force-depends --log=/dev/null --install "$dist"/athanor-sim_*.deb \
    >"$scratch/output" 2>&1 || die 1 "dpkg: $(cat "$scratch/output")"
  try_simulator "$root/usr/bin"
  dpkg --root="$root" --log=/dev/null --purge athanor-sim >"$scratch/output" 2>&1 ||
    die 1 "dpkg: $(cat "$scratch/output")"
  nothing_left "$root"
}

check_simulator_wheel
if compgen -G "$dist/athanor-[0-9]*.whl" >/dev/null; then
  check_trainer_wheel
fi
check_debian_package
say "Packages install, run and are removed"

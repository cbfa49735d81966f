# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# System packages: which are missing, and how to get them from the system's own sources.

sim_packages=(
  cmake ninja-build g++ ccache pkg-config git python3 python3-venv dpkg-dev binutils
  libsimgrid-dev nlohmann-json3-dev libcli11-dev libfmt-dev libbenchmark-dev catch2-v3
  libprotobuf-dev protobuf-compiler zlib1g-dev libnlopt-cxx-dev libyaml-cpp-dev libtomlplusplus-dev
  clang-format-19 clang-tidy-19 clang-19 libclang-rt-19-dev codespell gcovr shellcheck
)
executor_packages=(libopenmpi-dev openmpi-bin)
# Tests that need them are skipped, and say so, where this system's sources have no such package.
optional_packages=(chromium mmdebstrap)

# installed PACKAGE: as a package, or from elsewhere where a quick look tells.
installed() {
  case $1 in
    # Only Catch2 v3 has this header; v2 has the same package name on older systems.
    catch2-v3) compgen -G '/usr/*include/catch2/catch_all.hpp' >/dev/null ||
      [[ -f /usr/local/include/catch2/catch_all.hpp ]] ;;
    cmake | ccache | git | codespell | gcovr | shellcheck | chromium | mmdebstrap | clang-format-19 | clang-tidy-19 | clang-19)
      command -v "$1" >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    pkg-config) command -v pkg-config >/dev/null ;;
    g++ | python3) command -v "$1" >/dev/null ;;
    python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    openmpi-bin) command -v mpirun >/dev/null ;;
    protobuf-compiler) command -v protoc >/dev/null ;;
    libsimgrid-dev) pkg-config --exists simgrid 2>/dev/null ;;
    *) [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]] ;;
  esac
}

# missing_packages SIM_ONLY: one per line.
missing_packages() {
  local package wanted=("${sim_packages[@]}")
  $1 || wanted+=("${executor_packages[@]}")
  for package in "${wanted[@]}"; do
    installed "$package" || echo "$package"
  done
}

as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  else
    sudo "$@"
  fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=5 \
    -o Acquire::http::Timeout=60 -o Acquire::https::Timeout=60 -o DPkg::Lock::Timeout=300 "$@" >&2
}

# candidate PACKAGE: the version that apt would install, or nothing.
candidate() { apt-cache policy "$1" | sed -n 's/^  Candidate: //p' | grep -vx '(none)' || true; }

# Prints the name under which this system's sources carry Catch2 v3, or returns 1.
catch2_v3_package() {
  local package version
  for package in libcatch2-dev catch2; do
    version=$(candidate "$package")
    if [[ -n $version ]] && dpkg --compare-versions "$version" ge 3.4; then
      echo "$package"
      return
    fi
  done
  return 1
}

# Adds the backports suite of this release, from the site that the system has its packages from.
add_backports() {
  local codename site keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  # shellcheck disable=SC2016 # apt's own placeholder
  site=$(apt-get indextargets --format '$(SITE)' "Codename: $codename" 'Created-By: Packages' | head -n 1)
  [[ -n $site ]] || die 2 "apt has no package source for '$codename'; Catch2 v3 has to be installed by hand"
  say "Adding $codename-backports, for Catch2 v3, as athanor-backports.sources"
  {
    printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\n' "$site" "$codename"
    [[ ! -f $keyring ]] || printf 'Signed-By: %s\n' "$keyring"
  } | as_root tee /etc/apt/sources.list.d/athanor-backports.sources >/dev/null
  apt_get update
}

install_missing_packages() {
  local missing catch2
  mapfile -t missing < <(missing_packages "$1")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  say "Missing packages: ${missing[*]}"
  if ! command -v apt-get >/dev/null || { [[ $(id -u) != 0 ]] && ! command -v sudo >/dev/null; }; then
    die 2 "cannot install packages here (apt-get as root or with sudo). Install them and run again: ${missing[*]}"
  fi
  apt_get update
  if [[ " ${missing[*]} " == *" catch2-v3 "* ]]; then
    catch2_v3_package >/dev/null || add_backports
    catch2=$(catch2_v3_package) || die 2 "no package source of this system has Catch2 v3"
    missing=("${missing[@]/#catch2-v3/$catch2}")
  fi
  apt_get install -y --no-install-recommends "${missing[@]}"
  mapfile -t missing < <(missing_packages "$1")
  [[ ${#missing[@]} -eq 0 ]] || die 1 "still missing after installation: ${missing[*]}"
}

# Installs what only some tests use, where this system's sources have it; a failure costs those tests alone.
install_optional_packages() {
  local package wanted=()
  for package in "${optional_packages[@]}"; do
    installed "$package" || [[ -z $(candidate "$package") ]] || wanted+=("$package")
  done
  [[ ${#wanted[@]} -gt 0 ]] || return 0
  [[ $(id -u) == 0 ]] || command -v sudo >/dev/null || return 0
  say "Packages for more tests: ${wanted[*]}"
  apt_get install -y --no-install-recommends "${wanted[@]}" ||
    say "Without ${wanted[*]}, tests that need them are skipped"
}

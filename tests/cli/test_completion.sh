#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: test_completion.sh TOOLS BIN
#
# Completes words of athanor's command line in bash, and in zsh and fish where they are: each offers the verbs and options of
# the programs' help.
set -euo pipefail
tools=$1
export PATH=$2:$PATH

# expect SHELL FOUND WORD..: each word is among those that were found.
expect() {
  local shell=$1 found=$2 word
  shift 2
  for word in "$@"; do
    grep -qE -- "^ *$word([[:space:]:].*)?$" <<<"$found" || {
      echo "$shell does not offer $word, but: $found" >&2
      exit 1
    }
  done
}

in_bash() {
  bash -c 'source "$1/completion.bash"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); _athanor
    printf "%s\n" "${COMPREPLY[@]}"' bash "$tools" "$@"
}
expect bash "$(in_bash athanor t)" tune train tokenize
expect bash "$(in_bash athanor tune --g)" --gpus --global-batch --gpu-memory
expect bash "$(in_bash athanor tune --ou)" --output
expect bash "$(in_bash athanor show pl)" plan platform
[[ $(in_bash athanor doctor --j) == --json ]] || { echo "bash offers more than --json to doctor" >&2 && exit 1; }

# Zsh completes at a terminal alone: what would be described there is printed.
in_zsh() {
  zsh -fc '_files() { :; }; _describe() { print -l -- ${(P)2}; }
    fpath=($1 $fpath); autoload -Uz _athanor; words=("${@:2}"); CURRENT=$#words; _athanor' zsh "$functions" "$@"
}
functions=$(mktemp -d)
trap 'rm -rf "$functions"' EXIT
ln -s "$tools/completion.zsh" "$functions/_athanor"
if command -v zsh >/dev/null; then
  expect zsh "$(in_zsh athanor t)" tune train tokenize
  expect zsh "$(in_zsh athanor tune --g)" --gpus --global-batch --output
  expect zsh "$(in_zsh athanor show '')" plan platform
fi

in_fish() { fish --no-config -c "source $tools/completion.fish; complete -C '$*'"; }
if command -v fish >/dev/null; then
  expect fish "$(in_fish athanor t)" tune train tokenize
  expect fish "$(in_fish athanor tune --g)" --gpus --global-batch --gpu-memory
  expect fish "$(in_fish athanor show pl)" plan platform
fi

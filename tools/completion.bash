# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Bash completion for athanor. Verbs and options are those that the installed programs print as help, so that there is one
# source of them for bash, zsh and fish; names of platforms and profiles are those that are installed.
_athanor() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]-} words
  if [[ $COMP_CWORD -eq 1 ]]; then
    words="$(athanor --help 2>/dev/null | sed -nE 's/^  ([a-z]+) .*/\1/p') --help --version"
  else
    case $previous in
      --platform | --profile-platform) words=$(athanor show platform 2>/dev/null) ;;
      --profile) words=$(athanor show profile 2>/dev/null) ;;
      show) words="model memory plan program platform profile" ;;
      *) words=$(athanor "$verb" --help 2>/dev/null | sed -nE 's/^  (-[a-zA-Z][^-]*)?(--[a-z0-9-]+).*/\2/p') ;;
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current"; compgen -f -- "$current")
}
complete -o filenames -F _athanor athanor

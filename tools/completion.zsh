#compdef athanor
# SPDX-License-Identifier: Apache-2.0
# Zsh completion for athanor, from the same help of the programs as bash's. A folder of fpath has it as _athanor.
local -a found
if (( CURRENT == 2 )); then
  found=(${(f)"$(athanor --help 2>/dev/null | sed -nE 's/^  ([a-z]+) +(.*)/\1:\2/p')"})
  _describe verb found
  return
fi
case ${words[CURRENT-1]} in
  --platform|--profile-platform) found=(${(f)"$(athanor show platform 2>/dev/null)"}) ;;
  --profile) found=(${(f)"$(athanor show profile 2>/dev/null)"}) ;;
  show) found=(model memory plan program platform profile) ;;
  *) found=(${(f)"$(athanor ${words[2]} --help 2>/dev/null |
       sed -nE 's/^  (-[a-zA-Z][^-]*)?(--[a-z0-9-]+).*/\2/p')"}) ;;
esac
_describe value found
_files

# SPDX-License-Identifier: Apache-2.0
# Fish completion for athanor, from the same help of the programs as bash's.
function __athanor_verbs
    athanor --help 2>/dev/null | string replace -rf '^  ([a-z]+) +(.*)' '$1\t$2'
end
function __athanor_options
    set -l words (commandline -opc)
    athanor $words[2] --help 2>/dev/null | string replace -rf '^  (?:-[a-zA-Z][^-]*)?(--[a-z0-9-]+).*' '$1'
end
function __athanor_follows
    set -l words (commandline -opc)
    contains -- $words[-1] $argv
end
complete -c athanor -n 'test (count (commandline -opc)) -eq 1' -f -a '(__athanor_verbs)'
complete -c athanor -n 'test (count (commandline -opc)) -gt 1' -a '(__athanor_options)'
complete -c athanor -n '__athanor_follows --platform --profile-platform' -a '(athanor show platform 2>/dev/null)'
complete -c athanor -n '__athanor_follows --profile' -a '(athanor show profile 2>/dev/null)'
complete -c athanor -n '__athanor_follows show' -f -a 'model memory plan program platform profile'

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the manual page of athanor from what its programs print as help.

usage: manual.py ATHANOR OUTPUT

Verbs whose program was not built are left out: their help is not there.
"""

import pathlib
import re
import subprocess
import sys


def help_of(athanor, *verb):
    """The help of a verb; empty where its program is not there."""
    done = subprocess.run([athanor, *verb, "--help"], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def escaped(text):
    """Text as roff takes it: no line is a request, and a hyphen is one that can be searched for."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)


def options_of(text):
    """Pairs of an option with its argument, and what it does. Long ones have their text on the next line."""
    for match in re.finditer(r"^  (-\S.*?)(?:\n {8,}| {2,})(\S.*)$", text, re.MULTILINE):
        yield match[1], match[2]


def section_of(verb, text):
    summary, _, rest = text.partition("\n")
    lines = [f".SS athanor {verb}", escaped(summary)]
    for option, meaning in options_of(rest):
        lines += [".TP", f".B {escaped(option)}", escaped(meaning)]
    return "\n".join(lines)


def page(athanor):
    text = help_of(athanor)
    verbs = re.findall(r"^  ([a-z]+) +(.*)$", text, re.MULTILINE)
    assert verbs, f"{athanor} --help lists no verbs"
    version = subprocess.run([athanor, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    lines = [f'.TH ATHANOR 1 "" "{version}"', ".SH NAME", "athanor \\- " + escaped(text.splitlines()[0]),
             ".SH SYNOPSIS", ".B athanor\n.I VERB\n[OPTIONS]", ".SH VERBS"]
    for verb, meaning in verbs:
        lines += [".TP", f".B {verb}", escaped(meaning)]
    lines.append(".SH OPTIONS")
    lines += [section_of(verb, told) for verb, _ in verbs if (told := help_of(athanor, verb))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_text(page(sys.argv[1]), encoding="utf-8")

# SPDX-License-Identifier: Apache-2.0
"""Puts the programs of a build where a wheel would put them, so that names of platforms and profiles are known."""

import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
# As cmake/AthanorInstall.cmake: profiles with a day in their name are older measurements.
OLDER = re.compile(r"-20[0-9-]+(-b)?\.profile\.json$")


def install(build, site):
    """Makes site/athanor from the folder of programs `build`. Returns the folder of the programs."""
    package = pathlib.Path(site, "athanor")
    shutil.copytree(ROOT / "cli" / "python" / "athanor", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "bin").mkdir()
    for program in pathlib.Path(build).glob("*athanor*"):
        place = package / "bin" / program.name
        try:
            place.hardlink_to(program)
        except OSError:  # another file system
            shutil.copy(program, place)
    share = package / "share" / "athanor"
    shutil.copytree(ROOT / "platforms", share / "platforms", ignore=shutil.ignore_patterns("datasheets", "*.md"))
    (share / "profiles").mkdir()
    for profile in (ROOT / "traces" / "profiles").glob("*.profile.json"):
        if not OLDER.search(profile.name):
            shutil.copy(profile, share / "profiles")
    return package / "bin"

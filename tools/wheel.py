#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of programs that `cmake --install` has put into a folder.

The files of PREFIX become the package folder athanor/, whichever wheel brings them, so that `athanor` finds the programs
of both beside itself. auditwheel copies the shared libraries that not every Linux has into the wheel, and names the
oldest glibc that it runs with. Their licences, as this system's packages state them, go into the wheel, too.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Libraries of the trainer that other packages bring: PyTorch and NVIDIA's wheels, and the system's Open MPI, whose
# launcher and plug-ins have to be of the same version.
FROM_ELSEWHERE = ["libtorch*", "libc10*", "libcu*", "libnccl*", "libnvrtc*", "libmpi*"]
# Where the trainer's libraries are, seen from athanor/bin and athanor/lib.
RUNPATH = ":".join("$ORIGIN/../../" + place for place in
                   ("torch/lib", "nvidia/cu13/lib", "nvidia/nccl/lib", "nvidia/cudnn/lib"))
SUMMARY = {
    "athanor-sim": "Simulates and tunes the training of models larger than GPU memory",
    "athanor": "Measures, simulates, tunes and trains models larger than GPU memory",
}


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"wheel.py: {' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def shared_libraries(program):
    """The libraries that the loader finds for a program, by the names of their files."""
    fields = [line.split() for line in run("ldd", program).splitlines()]
    paths = [pathlib.Path(f[2]).resolve() for f in fields if len(f) > 2 and f[1] == "=>" and f[2].startswith("/")]
    return {path.name: path for path in paths}


def licence_of(library):
    """A name for a library's licence, and its text: a file beside the library, or the copyright of its package."""
    for beside in sorted(library.parent.glob("LICENSE*")):
        return library.name.split(".so")[0], beside
    for path in (str(library), str(library).removeprefix("/usr")):
        owner = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True, check=False).stdout.split(":")[0]
        text = pathlib.Path("/usr/share/doc") / owner / "copyright"
        if owner and text.is_file():
            return owner, text
    sys.exit(f"wheel.py: {library} is in the wheel, and its licence was not found")


def metadata(name, version):
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", f"Summary: {SUMMARY[name]}",
             "License: Apache-2.0, and for the libraries that it carries those in the folder licenses",
             "Requires-Python: >=3.10", "Description-Content-Type: text/markdown"]
    if name == "athanor":
        lines += [f"Requires-Dist: athanor-sim =={version}", "Requires-Dist: torch ==2.11.*",
                  "Provides-Extra: text", "Requires-Dist: transformers ; extra == 'text'",
                  "Requires-Dist: safetensors ; extra == 'text'"]
    return "\n".join(lines) + "\n\n" + (ROOT / "README.md").read_text()


def pack_plain(name, version, prefix, folder):
    """Makes a wheel that works on this system alone, for auditwheel to repair. Returns its path."""
    tree = folder / "tree"
    shutil.copytree(prefix, tree / "athanor")
    info = tree / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata(name, version))
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: athanor\nRoot-Is-Purelib: false\n"
                                f"Tag: py3-none-linux_{os.uname().machine}\n")
    if name == "athanor-sim":
        for module in (ROOT / "cli" / "python" / "athanor").glob("*.py"):
            shutil.copy(module, tree / "athanor")
        (info / "entry_points.txt").write_text("[console_scripts]\nathanor = athanor.__main__:main\n")
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", folder, tree)
    return next(folder.glob("*.whl"))


def add_licences(wheel, libraries, output):
    """Adds the licences of the libraries that the wheel carries, and puts it into the folder `output`."""
    with tempfile.TemporaryDirectory() as scratch:
        run(sys.executable, "-m", "wheel", "unpack", "--dest", scratch, wheel)
        tree = next(pathlib.Path(scratch).iterdir())
        folder = next(tree.glob("*.dist-info")) / "licenses"
        folder.mkdir(exist_ok=True)
        shutil.copy(ROOT / "LICENSE", folder)
        for carried in tree.glob("*.libs/*"):
            # auditwheel puts a hash into the name: libfmt-3f2a1b0c.so.9.1.0
            library = libraries[re.sub(r"-[0-9a-f]{8}(?=\.so)", "", carried.name)]
            title, text = licence_of(library)
            shutil.copy(text, folder / title)
            print(f"  carries {library} ({title})", file=sys.stderr)
        run(sys.executable, "-m", "wheel", "pack", "--dest-dir", output, tree)
    print(output / wheel.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(SUMMARY))
    parser.add_argument("version")
    parser.add_argument("prefix", type=pathlib.Path, help="what cmake --install made")
    parser.add_argument("output", type=pathlib.Path, help="folder for the wheel")
    options = parser.parse_args()
    elves = [path for path in options.prefix.rglob("*") if path.is_file() and is_elf(path)]
    libraries = {name: path for elf in elves for name, path in shared_libraries(elf).items()}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        if options.name == "athanor":
            for elf in elves:
                run("patchelf", "--set-rpath", RUNPATH, elf)
        wheel = pack_plain(options.name, options.version, options.prefix, folder)
        excluded = [word for pattern in FROM_ELSEWHERE for word in ("--exclude", pattern)]
        run(sys.executable, "-m", "auditwheel", "repair", *excluded, "--wheel-dir", folder / "repaired", wheel)
        add_licences(next((folder / "repaired").glob("*.whl")), libraries, options.output)


if __name__ == "__main__":
    main()

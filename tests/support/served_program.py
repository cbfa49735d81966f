# SPDX-License-Identifier: Apache-2.0
"""A program that takes one command after the other, so that it starts once: LibTorch takes a third of a second to start."""

import subprocess


class ServedProgram:
    """Sends a line for each command, with tabs between its words, and expects the line "done"."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def run(self, *words):
        try:
            print(*words, sep="\t", file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if answer != "done\n":
            self.process.kill()
            raise RuntimeError(f"{' '.join(map(str, words))}: {self.process.args[0]} answered {answer!r} and ended with "
                               f"{self.process.wait()}")

    def __exit__(self, failure, *rest):
        self.process.stdin.close()
        status = self.process.wait()
        if failure is None and status != 0:
            raise RuntimeError(f"{self.process.args[0]} ended with {status}")

# SPDX-License-Identifier: Apache-2.0
"""Loads a trace of `athanor profile` with Holistic Trace Analysis.

Usage: check_kineto_trace.py PROGRAM, which prints a trace; or check_kineto_trace.py TRACE.json.
Exits with 4 (skipped) where the package is not installed (tools/requirements-readers.txt).
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
try:
    from hta.trace_analysis import TraceAnalysis
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(4)


def microseconds(events, category):
    return sum(event["dur"] for event in events if event.get("cat") == category)


def check(folder, text):
    (folder / "rank-0.json").write_text(text)
    events = json.loads(text)["traceEvents"]
    analysis = TraceAnalysis(trace_dir=str(folder))
    assert set(analysis.t.traces) == {0}
    _, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True, num_kernels=10**6)
    found = kernels.groupby("kernel_type")["sum (us)"].sum()
    copies = microseconds(events, "gpu_memcpy") + microseconds(events, "gpu_memset")
    for kind, expected in (("COMPUTATION", microseconds(events, "kernel")), ("MEMORY", copies)):
        assert abs(found.get(kind, 0) - expected) <= 1e-6 * expected, f"{kind}: {found} {expected}"
    # From correlation ids: each kernel has the call that launched it, so none is left over.
    launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
    on_device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    assert len(launches) >= len([e for e in on_device if e["cat"] == "kernel"]), launches
    print(f"{len(on_device)} activities, {len(launches)} launches")


def main():
    logging.disable(logging.WARNING)
    source = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        if source.suffix == ".json":
            check(Path(folder), source.read_text())
        else:
            check(Path(folder), subprocess.run([source], check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()

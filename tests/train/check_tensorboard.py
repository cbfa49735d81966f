# SPDX-License-Identifier: Apache-2.0
"""Compares what TensorBoard reads of a run with the run's metrics.jsonl.

usage: check_tensorboard.py RUN
Exits with 0 where they agree, 1 where they do not, 4 where TensorBoard is not installed.
"""

import json
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / ".cache" / "readers"))
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(4)


def written(run):
    """Returns {tag: {step: value}} of metrics.jsonl."""
    series = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        step = record.pop("step")
        for tag, value in record.items():
            if isinstance(value, (int, float)):
                series.setdefault(tag, {})[step] = value
    return series


def shown(run):
    """Returns {tag: {step: value}} as TensorBoard shows it."""
    accumulator = EventAccumulator(str(run / "tensorboard"))
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    return {tag: {e.step: e.value for e in accumulator.Scalars(tag)} for tag in tags}


def main():
    run = Path(sys.argv[1])
    expected, found = written(run), shown(run)
    if expected.keys() != found.keys():
        sys.exit(f"tags differ: {sorted(expected.keys() ^ found.keys())}")
    for tag, values in expected.items():
        if values.keys() != found[tag].keys():
            sys.exit(f"{tag}: steps {sorted(values)} are {sorted(found[tag])}")
        for step, value in values.items():
            if not math.isclose(value, found[tag][step], rel_tol=1e-6):  # of single precision
                sys.exit(f"{tag} of step {step}: {value} is {found[tag][step]}")
    print(f"{len(expected)} series of {max(map(len, expected.values()))} steps agree")


if __name__ == "__main__":
    main()

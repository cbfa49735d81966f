#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says how far the loss of a run fell, and fails where that is less than a third."""

import json
import statistics
import sys

LOSS = "loss_metrics/global_avg_loss"
# Learning how often each token occurs lets the demo's loss fall by a quarter; what precedes it another quarter.
FLOOR = 1 / 3


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    losses = [record[LOSS] for record in records if LOSS in record]
    if len(losses) < 10:
        print(f"{sys.argv[1]}: only {len(losses)} steps with a loss", file=sys.stderr)
        return 1
    # The first step's loss is the untrained model's; the last ones are averaged over their batches.
    first, last = losses[0], statistics.mean(losses[-5:])
    fall = 1 - last / first
    print(f"loss {first:.3f} -> {last:.3f}: fell by {fall:.0%} in {len(losses)} steps")
    if fall < FLOOR:
        print(f"the loss should have fallen by at least {FLOOR:.0%}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

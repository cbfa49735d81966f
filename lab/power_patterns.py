#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how a GPU's power limit acts on matrix products with pauses, to hold a calibration against.

usage: lab/power_patterns.py -o PATTERNS.json [--platform PLATFORM.json] [--seconds 4] [--only-ramps]

bf16 products of 8192 x 8192 on random data are launched for a share of each period, at most four ahead of the GPU.
Rates in the on-phase are by CUDA events, mean power by NVML's energy counter. Needs PyTorch and an NVIDIA GPU that
nobody else uses. Format: traces/README.md.
"""

import argparse
import collections
import ctypes
import datetime
import itertools
import json
import math
import pathlib
import statistics
import sys
import threading
import time

SIZE = 8192
FLOPS = 2 * SIZE**3
AHEAD = 4
# A tenth of a millisecond: a stream that waits so long before a burst waits for no launch in it.
LAUNCH_CYCLES = 200_000
# No period is in step with the 100 ms of the energy counter.
PERIODS = (0.0231, 0.0937, 0.2173, 0.5371, 1.0713)
SHARES = (0.25, 0.5, 0.75)
RESTS = (1.0, 4.0)  # before a ramp


class EnergyCounter:
    """Energy of one GPU since its driver was loaded."""

    def __init__(self, uuid):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.check(self.nvml.nvmlInit_v2())
        self.device = ctypes.c_void_p()
        self.check(self.nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self.device)))

    @staticmethod
    def check(code):
        if code != 0:
            raise RuntimeError(f"NVML refused with code {code}")

    def joules(self):
        millijoules = ctypes.c_ulonglong()
        self.check(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(millijoules)))
        return 1e-3 * millijoules.value


class EnergyOverTime:
    """Notes when the counter changes, which it does every 100 ms, until the context ends."""

    def __init__(self, counter):
        self.counter, self.changes, self.ending = counter, [], threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()

    def watch(self):
        last = self.counter.joules()
        while not self.ending.wait(5e-4):
            if (now := self.counter.joules()) != last:
                self.changes.append((time.monotonic(), now))
                last = now

    def at(self, moment):
        """Joules at `moment`, between the changes around it."""
        (start, low), (end, high) = next(
            pair for pair in itertools.pairwise(self.changes) if pair[0][0] <= moment <= pair[1][0])
        return low + (high - low) * (moment - start) / (end - start)


class Products:
    """Products on one stream, timed by events."""

    def __init__(self, torch):
        self.torch = torch
        self.a, self.b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        self.c = torch.empty_like(self.a)
        self.estimate = 1.5e-3
        self.run(0.02)

    def event(self):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def run(self, seconds):
        """Launches for `seconds` of the GPU's time and waits; returns what each product took."""
        self.torch.cuda._sleep(LAUNCH_CYCLES)
        waiting, taken, launched = collections.deque([self.event()]), [], 0.0
        while launched < seconds or len(waiting) > 1:
            if launched < seconds:
                self.torch.mm(self.a, self.b, out=self.c)
                waiting.append(self.event())
                launched += self.estimate
                if len(waiting) <= AHEAD:
                    continue
            waiting[1].synchronize()
            taken.append(1e-3 * waiting[0].elapsed_time(waiting[1]))
            self.estimate = taken[-1]
            waiting.popleft()
        return taken


def measure_pattern(products, counter, share, period, seconds):
    # The same before and after what counts: the budgets settle, and the counter has changed at both ends.
    around = math.ceil(max(1.0, 2 * period) / period)
    counted = math.ceil(max(seconds, 6 * period) / period)
    bursts = []  # when each began, and what its products took
    with EnergyOverTime(counter) as energy:
        began = time.monotonic()
        for i in range(around + counted + around):
            time.sleep(max(0.0, began + i * period - time.monotonic()))
            bursts.append((time.monotonic(), products.run(share * period)))
    start, end = bursts[around][0], bursts[around + counted][0]
    taken = [burst for _, burst in bursts[around : around + counted]]
    on = [sum(burst) for burst in taken]
    return {
        "share": share,
        "period": period,
        "rate": FLOPS * sum(map(len, taken)) / sum(on),
        "on_seconds": statistics.mean(on),
        "period_seconds": (end - start) / counted,
        "watts": (energy.at(end) - energy.at(start)) / (end - start),
    }


def measure_ramp(products, rest, seconds):
    time.sleep(rest)
    return {"rest": rest, "product_seconds": [round(second, 7) for second in products.run(seconds)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="output", type=pathlib.Path, required=True)
    parser.add_argument("--platform", help="the machine's calibration, as the file shall name it")
    parser.add_argument("--seconds", type=float, default=4, help="of each pattern and ramp")
    parser.add_argument("--only-ramps", action="store_true")
    arguments = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        sys.exit("power_patterns.py: no CUDA device: run it on a machine with an NVIDIA GPU")
    properties = torch.cuda.get_device_properties(0)
    counter = EnergyCounter(f"GPU-{properties.uuid}")
    products = Products(torch)
    ramps = [measure_ramp(products, rest, arguments.seconds) for rest in RESTS]
    patterns = [] if arguments.only_ramps else [
        measure_pattern(products, counter, share, period, arguments.seconds)
        for period, share in itertools.product(PERIODS, SHARES)]
    answer = {"schema": "athanor.power-patterns/1", "hardware": f"1 x {properties.name}",
              "date": datetime.date.today().isoformat(),
              "versions": {"CUDA": torch.version.cuda, "LibTorch": torch.__version__}}
    if arguments.platform:
        answer["platform"] = arguments.platform
    answer |= {"method": "lab/power_patterns.py", "patterns": patterns, "ramps": ramps}
    arguments.output.write_text(json.dumps(answer, indent=1) + "\n")


if __name__ == "__main__":
    main()

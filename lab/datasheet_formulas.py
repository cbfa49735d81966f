# SPDX-License-Identifier: Apache-2.0
"""From the figures of a data sheet to a platform. Every time is latency + amount / achieved rate (platforms/README.md)."""

GIB, GIGA = 2**30, 1e9
LARGE_BYTES, LARGE_ELEMENTS = 2**30, 2**27
# Per element in bf16: fp32 master, two fp32 moments and the gradient are read, all but the gradient and the bf16
# parameter are written (executor/cuda/kernels/kernels.cu, executor/cpu/adam.cpp).
ADAM_BYTES = 28
FILE_REQUEST_BYTES = 16 * 2**20  # read or written at once, and waited for (executor/backend/scratch_file.cpp)


def line(latency, seconds_per_unit, large):
    """A curve that is a straight line: its two points."""
    return [{"size": float(size), "seconds": latency + size * seconds_per_unit, "spread": 0.0} for size in (0, large)]


def rates(gpu, machine, achieved):
    """Achieved rates in bytes per second (FLOPs for `matmul`)."""
    host = machine["host_memory_gb_per_s"] * GIGA * achieved["host_memory"]
    link = gpu["host_link_gb_per_s"]
    peers = {"nvlink": machine.get("peer_gb_per_s", gpu.get("peer_gb_per_s")), "pcie": link,
             "host": link * achieved["peer_through_host"], "none": 0}
    copy = min(link * GIGA * achieved["host_link"], host)  # a copy reads or writes host memory once
    return {
        "matmul": gpu["tensor_tflops"] * 1e12 * achieved["matmul"],
        "memory": gpu["memory_gb_per_s"] * GIGA * achieved["device_memory"],
        "host": host,
        "copy": copy,
        "sums": min(copy * achieved["host_sums"], host / 2),  # sums are read and written
        "bridge": machine.get("host_link_gb_per_s", link) * GIGA * achieved["host_link"],
        "bus": peers[gpu["peer"]] * GIGA * achieved["peer_link"],
    }


def collective(kind, ranks, rate, achieved):
    """A ring: `steps` times (n - 1) / n of the buffer over the bus, and the copy between a shard and its home."""
    steps, copied = (2, 1) if kind == "all_reduce" else (1, 1 / ranks)
    local = 2 * copied / rate["memory"]  # read and written
    if ranks == 1:
        return line(achieved["kernel_latency"], local, LARGE_BYTES)
    over_bus = steps * (ranks - 1) / ranks / rate["bus"]
    return line(achieved["collective_latency"], over_bus + local, LARGE_BYTES)


def host_update_rate(threads, rate, achieved):
    """Bytes per second of AdamW: what the threads move, then what the memory moves."""
    return 1 / (1 / (threads * achieved["thread"]) + 1 / rate["host"])


def thread_counts(cores, count):
    powers = {2**i for i in range(cores.bit_length()) if 2**i <= cores}
    return sorted(powers | {cores, max(1, cores // count)})


def cpu_adam(machine, rate, achieved):
    def curve(threads):
        seconds = ADAM_BYTES / host_update_rate(threads, rate, achieved)
        return line(achieved["host_latency"], seconds, LARGE_ELEMENTS)

    counts = thread_counts(machine["cores"], machine["count"])
    return [{"threads": threads, "curve": curve(threads)} for threads in counts]


def drive_rates(machine, achieved):
    """Bytes per second of all drives together, by lane; none where the sheet names no drives."""
    if "drives" not in machine:
        return {}
    return {lane: machine["drives"] * machine[f"drive_{way}_gb_per_s"] * GIGA * achieved["drive"]
            for way, lane in (("read", "nvme-read"), ("write", "nvme-write"))}


def file_curve(rate, achieved):
    """Of one process, request after request."""
    if rate is None:
        return []
    latency = achieved["drive_latency"]
    return line(latency, 1 / rate + latency / FILE_REQUEST_BYTES, LARGE_BYTES)


def drive_share(rate, achieved):
    """What one process takes of the drives' time."""
    return 1 / (1 + rate * achieved["drive_latency"] / FILE_REQUEST_BYTES)


def shared(gpu, machine, rate, achieved):
    """What lanes use at once. A lane's use is the same everywhere: the rate that it has when it is alone."""
    count, behind = machine["count"], machine["gpus_per_host_link"]
    threads = max(1, machine["cores"] // count)
    use = {"h2d": rate["copy"], "d2h": rate["copy"], "collective": rate["bus"],
           "cpu-adam": host_update_rate(threads, rate, achieved)}
    use |= {lane: drive_share(of_drives, achieved) for lane, of_drives in drive_rates(machine, achieved).items()}
    found = []

    def add(name, scope, capacity, *lanes):
        found.append({"name": name, "scope": scope, "capacity": capacity, "use": {lane: use[lane] for lane in lanes}})

    add("host memory", "node", rate["host"], "h2d", "d2h", "cpu-adam")
    add("host link, both ways", "device", rate["copy"] * achieved["host_link_both_ways"], "h2d", "d2h")
    through_host = ["collective"] if gpu["peer"] == "host" else []
    if behind > 1:
        links = count / behind
        add("host bridges, to GPUs", "node", links * rate["bridge"], "h2d", *through_host)
        add("host bridges, from GPUs", "node", links * rate["bridge"], "d2h", *through_host)
    if count > 1 and gpu["peer"] in ("pcie", "host"):
        add("link of a GPU, in", "device", rate["copy"], "h2d", "collective")
        add("link of a GPU, out", "device", rate["copy"], "d2h", "collective")
    if "drives" in machine:  # reads and writes take turns
        add("drives", "node", 1, "nvme-read", "nvme-write")
    return found


def contention(gpu, machine, achieved):
    """Multiprocessors, of which collectives over NVLink get few beside matrix products, and all when they are alone. What
    goes through the host is slower than few multiprocessors are."""
    if machine["count"] == 1 or gpu["peer"] != "nvlink":
        return {}
    return {"contention": [{"ranks": 1, "slowdown": {"compute": achieved["compute_beside_collective"],
                                                     "collective": achieved["collective_beside_compute"]}}]}


def network(machine, achieved):
    """How nodes reach each other. A hop: through a node's GPUs, and on to the next node."""
    if "nics" not in machine:
        return {}
    return {"network": {"max_nodes": machine["max_nodes"], "nics": machine["nics"],
                        "bytes_per_second": machine["nic_gb_per_s"] * GIGA * achieved["nic"],
                        "latency": achieved["nic_hop"] + (machine["count"] - 1) * achieved["peer_hop"]}}


def platform(gpu, machine, achieved):
    """The keys of athanor.platform/2 that follow from figures; provenance is the caller's."""
    rate = rates(gpu, machine, achieved)
    copy = line(achieved["copy_latency"], 1 / rate["copy"], LARGE_BYTES)
    drives = drive_rates(machine, achieved)
    square_sum = max(2 / rate["memory"], achieved["square_sum_flops"] / (gpu["fp64_tflops"] * 1e12))
    kinds = {kind: [{"world_size": n, "curve": collective(kind, n, rate, achieved)}
                    for n in range(1, machine["count"] + 1)]
             for kind in ("all_gather", "reduce_scatter", "all_reduce")}
    return {
        "schema": "athanor.platform/2",
        "name": machine["name"],
        "device": gpu["device"],
        "backend": "cuda",
        "num_devices": machine["count"],
        "device_memory": int(gpu["memory_gib"] * GIB * achieved["device_memory_size"]),
        "host_memory": int(machine["host_gib"] * GIB * achieved["host_memory_size"]),
        "host_cores": machine["cores"],
        "matmul_flops_per_second": rate["matmul"],
        "h2d": copy,
        "d2h": copy,
        "d2h_add": line(achieved["copy_latency"], 1 / rate["sums"], LARGE_BYTES),
        **kinds,
        "cpu_adam": cpu_adam(machine, rate, achieved),
        "device_adam": line(achieved["kernel_latency"], ADAM_BYTES / rate["memory"], LARGE_ELEMENTS),
        "device_square_sum": line(achieved["square_sum_latency"], square_sum, LARGE_ELEMENTS),
        "host_square_sum": line(achieved["host_latency"], 1 / achieved["host_square_sum"], LARGE_ELEMENTS),
        "file_read": file_curve(drives.get("nvme-read"), achieved),
        "file_write": file_curve(drives.get("nvme-write"), achieved),
        "shared": shared(gpu, machine, rate, achieved),
        **contention(gpu, machine, achieved),
        **network(machine, achieved),
    }

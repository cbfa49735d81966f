# SPDX-License-Identifier: Apache-2.0
"""Tests lab/datasheets.py: closed forms of its formulas, bad tables, and that --check finds what is out of date."""

import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lab"))

import datasheet_formulas as formulas  # noqa: E402
import datasheets  # noqa: E402

# Rates reach their peaks and nothing has a latency, so that each time is amount over peak.
IDEAL = {"matmul": 1, "host_link": 1, "host_link_both_ways": 2, "host_sums": 1, "peer_link": 1, "peer_through_host": 0.5,
         "device_memory": 1, "host_memory": 1, "thread": 10e9, "square_sum_flops": 1, "host_square_sum": 1e9,
         "collective_beside_compute": 3, "compute_beside_collective": 1.25, "device_memory_size": 1,
         "host_memory_size": 1, "copy_latency": 0, "collective_latency": 0, "kernel_latency": 0,
         "square_sum_latency": 0, "host_latency": 0, "nic": 1, "nic_hop": 0, "peer_hop": 0, "drive": 1, "drive_latency": 0}
GPU = {"device": "GPU", "peer": "nvlink", "tensor_tflops": 100, "fp64_tflops": 10, "memory_gib": 16,
       "memory_gb_per_s": 1000, "host_link_gb_per_s": 20, "peer_gb_per_s": 100}
MACHINE = {"name": "machine", "gpu": "GPU", "count": 4, "host": "host", "cores": 8, "host_gib": 64,
           "host_memory_gb_per_s": 100, "gpus_per_host_link": 1}


def made(gpu=None, machine=None, achieved=None):
    return formulas.platform(GPU | (gpu or {}), MACHINE | (machine or {}), IDEAL | (achieved or {}))


def at(curve, size):
    return datasheets.value_at(curve, size)


def resource(platform, name):
    return next((entry for entry in platform["shared"] if entry["name"] == name), None)


class Formulas(unittest.TestCase):
    def test_copy_is_latency_and_bytes_over_the_achieved_link(self):
        platform = made(achieved={"host_link": 0.5, "copy_latency": 1e-3})
        self.assertAlmostEqual(at(platform["h2d"], 10e9), 1e-3 + 1.0)
        self.assertAlmostEqual(at(platform["d2h"], 20e9), 1e-3 + 2.0)

    def test_copy_is_never_faster_than_host_memory(self):
        self.assertAlmostEqual(at(made(gpu={"host_link_gb_per_s": 450})["h2d"], 100e9), 1.0)

    def test_sums_on_the_host_are_read_and_written(self):
        self.assertAlmostEqual(at(made(achieved={"host_sums": 0.5})["d2h_add"], 10e9), 1.0)
        self.assertAlmostEqual(at(made(gpu={"host_link_gb_per_s": 450})["d2h_add"], 100e9), 2.0)

    def test_network_is_that_of_all_nics_and_a_hop_passes_every_gpu(self):
        self.assertNotIn("network", made())
        nics = {"nics": 2, "nic_gb_per_s": 50, "max_nodes": 16}
        network = made(machine=nics, achieved={"nic": 0.5, "nic_hop": 1e-5, "peer_hop": 1e-6})["network"]
        self.assertEqual((network["max_nodes"], network["nics"]), (16, 2))
        self.assertAlmostEqual(network["bytes_per_second"], 25e9)
        self.assertAlmostEqual(network["latency"], 1.3e-5)

    def test_files_take_the_drives_rates_and_a_latency_for_each_request(self):
        self.assertEqual((made()["file_read"], made()["file_write"], resource(made(), "drives")), ([], [], None))
        drives = {"drives": 2, "drive_read_gb_per_s": 5, "drive_write_gb_per_s": 2}
        requests = 4
        size = requests * 16 * 2**20
        platform = made(machine=drives, achieved={"drive": 0.5, "drive_latency": 1e-3})
        self.assertAlmostEqual(at(platform["file_read"], size), (1 + requests) * 1e-3 + size / 5e9)
        self.assertAlmostEqual(at(platform["file_write"], size), (1 + requests) * 1e-3 + size / 2e9)
        # Alone, a process leaves the drives idle while a request is under way.
        use = resource(platform, "drives")["use"]
        self.assertAlmostEqual(use["nvme-read"], size / 5e9 / (requests * 1e-3 + size / 5e9))
        self.assertEqual(resource(made(machine=drives), "drives"),
                         {"name": "drives", "scope": "node", "capacity": 1, "use": {"nvme-read": 1, "nvme-write": 1}})

    def test_ring_moves_n_minus_1_of_n_over_the_bus_and_copies_a_shard(self):
        platform = made(achieved={"collective_latency": 1e-3})
        for ranks in (2, 3, 4):
            local = 2 * 100e9 / ranks / 1000e9
            gather = 1e-3 + (ranks - 1) / ranks * 1.0 + local
            for kind in ("all_gather", "reduce_scatter"):
                self.assertAlmostEqual(at(platform[kind][ranks - 1]["curve"], 100e9), gather)
            reduce = 1e-3 + 2 * (ranks - 1) / ranks * 1.0 + 2 * 100e9 / 1000e9
            self.assertAlmostEqual(at(platform["all_reduce"][ranks - 1]["curve"], 100e9), reduce)
        self.assertAlmostEqual(at(platform["all_gather"][0]["curve"], 500e9), 1.0)

    def test_peers_over_pcie_and_through_the_host(self):
        for peer, bandwidth in (("pcie", 20e9), ("host", 10e9)):
            platform = made(gpu={"peer": peer})
            self.assertAlmostEqual(resource(platform, "link of a GPU, in")["use"]["collective"], bandwidth)
            self.assertNotIn("contention", platform)

    def test_peers_over_nvlink_lack_multiprocessors_beside_products_alone(self):
        platform, fewer = made(), made(machine={"peer_gb_per_s": 50})
        self.assertEqual(platform["contention"], [{"ranks": 1, "slowdown": {"compute": 1.25, "collective": 3}}])
        self.assertTrue(all("collective" not in entry["use"] for entry in platform["shared"]))
        of_two = [at(machine["all_gather"][1]["curve"], 100e9) for machine in (platform, fewer)]
        self.assertAlmostEqual(of_two[1] - of_two[0], 50e9 / 50e9 - 50e9 / 100e9)
        self.assertNotIn("contention", made(machine={"count": 1}))

    def test_adam_moves_28_bytes_an_element(self):
        platform = made()
        self.assertAlmostEqual(at(platform["device_adam"], 1e9), 28e9 / 1000e9)
        by_threads = {entry["threads"]: entry["curve"] for entry in platform["cpu_adam"]}
        self.assertEqual(sorted(by_threads), [1, 2, 4, 8])
        for threads, curve in by_threads.items():
            self.assertAlmostEqual(at(curve, 1e9), 28e9 / (threads * 10e9) + 28e9 / 100e9)

    def test_square_sum_is_bound_by_memory_or_by_fp64(self):
        self.assertAlmostEqual(at(made()["device_square_sum"], 1e9), 2e9 / 1000e9)
        self.assertAlmostEqual(at(made(gpu={"fp64_tflops": 0.1})["device_square_sum"], 1e9), 1e9 / 0.1e12)

    def test_gpus_behind_one_link_share_it(self):
        self.assertIsNone(resource(made(), "host bridges, to GPUs"))
        bridge = resource(made(machine={"gpus_per_host_link": 4}), "host bridges, to GPUs")
        self.assertEqual((bridge["scope"], bridge["capacity"], bridge["use"]), ("node", 20e9, {"h2d": 20e9}))
        own = resource(made(machine={"gpus_per_host_link": 2, "host_link_gb_per_s": 60}), "host bridges, from GPUs")
        self.assertEqual((own["capacity"], own["use"]), (120e9, {"d2h": 20e9}))

    def test_copies_and_cpu_adam_share_host_memory(self):
        memory = resource(made(), "host memory")
        self.assertEqual(memory["capacity"], 100e9)
        self.assertAlmostEqual(memory["use"]["cpu-adam"], 1 / (1 / 20e9 + 1 / 100e9))  # two of eight cores

    def test_one_gpu_shares_no_collective(self):
        platform = made(gpu={"peer": "none"}, machine={"count": 1})
        self.assertEqual([entry["name"] for entry in platform["shared"]], ["host memory", "host link, both ways"])


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "platforms"
        shutil.copytree(ROOT / "platforms", self.folder)

    def edit(self, name, change):
        path = self.folder / "datasheets" / name
        table = json.loads(path.read_text())
        change(table)
        path.write_text(json.dumps(table))

    def problems(self, check=True):
        with contextlib.redirect_stdout(io.StringIO()):
            return datasheets.run(self.folder, check)

    def rejects(self, part):
        with self.assertRaises(datasheets.BadTable) as caught:
            self.problems()
        self.assertIn(part, str(caught.exception))

    def test_files_are_up_to_date_and_close_to_the_measurement(self):
        self.assertEqual(self.problems(), [])

    def test_a_changed_missing_or_outdated_file_is_found_and_made_again(self):
        (self.folder / "a10x4.json").unlink()
        changed = self.folder / "b200x8.json"
        changed.write_text(changed.read_text().replace('"NVIDIA B200"', '"NVIDIA B100"'))
        self.edit("gpus.json", lambda table: table["gpus"]["L40S"].update(memory_gib=[46, "sheet"]))
        found = " ".join(self.problems())
        for name in ("a10x4", "b200x8", "l40sx8"):
            self.assertIn(f"{name}.json", found)
        self.assertEqual(self.problems(check=False), [])
        self.assertEqual(self.problems(), [])

    def test_formulas_that_leave_the_measurement_are_found(self):
        for key, factor, named in (("host_link", 0.8, "h2d"), ("device_memory", 1.3, "device_adam"),
                                   ("peer_link", 0.7, "all_gather"), ("thread", 2, "cpu_adam"), ("matmul", 1.1, "matmul")):
            with self.subTest(key):
                entry = json.loads((ROOT / "platforms/datasheets/achieved.json").read_text())["figures"][key]
                self.edit("achieved.json", lambda table: table["figures"][key].update(value=entry["value"] * factor))
                self.assertIn(f"h200x4: {named}", " ".join(self.problems()))
                self.edit("achieved.json", lambda table: table["figures"].update({key: entry}))

    def test_figures_without_source_are_refused(self):
        self.edit("gpus.json", lambda table: table["gpus"]["A10"].update(tensor_tflops=125))
        self.rejects("gpus.json:A10.tensor_tflops")

    def test_sources_that_are_not_named_are_refused(self):
        self.edit("machines.json", lambda table: table["machines"]["a10x4"].update(cores=[64, "web"]))
        self.rejects("machines.json:a10x4.cores")

    def test_unknown_missing_and_impossible_figures_are_refused(self):
        self.edit("gpus.json", lambda table: table["gpus"]["A10"].update(color=[1, "sheet"]))
        self.rejects("gpus.json:A10.color: unknown key")
        self.edit("gpus.json", lambda table: table["gpus"]["A10"].pop("color"))
        self.edit("gpus.json", lambda table: table["gpus"]["A10"].update(memory_gib=[0, "sheet"]))
        self.rejects("gpus.json:A10.memory_gib: 0")
        self.edit("gpus.json", lambda table: table["gpus"]["A10"].pop("memory_gib"))
        self.rejects("gpus.json:A10: lacks memory_gib")

    def test_gpus_need_a_known_way_to_their_peers(self):
        self.edit("gpus.json", lambda table: table["gpus"]["A10"].update(peer="nvlink"))
        self.rejects("gpus.json:A10: lacks peer_gb_per_s")
        self.edit("gpus.json", lambda table: table["gpus"]["A10"].update(peer="radio"))
        self.rejects("gpus.json:A10.peer: unknown way 'radio'")

    def test_achieved_figures_are_complete_and_say_what_they_were_measured_on(self):
        self.edit("achieved.json", lambda table: table["figures"].pop("thread"))
        self.rejects("achieved.json: thread: unknown or missing")
        self.edit("achieved.json", lambda table: table["figures"].update(thread={"value": 22e9, "from": ""}))
        self.rejects("achieved.json:thread")

    def test_unknown_gpus_are_refused(self):
        self.edit("machines.json", lambda table: table["machines"]["a10x4"].update(gpu="A11"))
        self.rejects("machines.json:a10x4.gpu: no GPU 'A11'")


if __name__ == "__main__":
    unittest.main()

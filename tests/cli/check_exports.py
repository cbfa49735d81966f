# SPDX-License-Identifier: Apache-2.0
"""Loads each export of athanor with the reader that it is meant for.

Usage: check_exports.py READER ATHANOR_SIM SOURCE_DIR, where READER is deepspeed, accelerate, torchtitan, hta or chakra.
Exits with 4 (skipped) if the reader's package is not installed (tools/requirements-readers.txt).
"""

import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

POLICIES = ["ddp", "zero2", "zero3", "zero2-offload", "zero3-offload", "fsdp2", "fsdp2-offload", "elixir", "gemini"]
LIMIT = "40MiB"  # GPU memory, so little that policies recompute or offload part of the tiny model if they can
NO_PLAN_FITS = 3  # exit code; the plan that needs least memory is printed all the same
GPUS = 2


class Programs:
    """Runs athanor-sim on the example files, in a folder that is gone afterwards."""

    def __init__(self, program, source, folder):
        self.program, self.folder = program, Path(folder)
        self.inputs = ["--profile", f"{source}/traces/example-gpt2-tiny.profile.json",
                       "--platform", f"{source}/platforms/example-cpu.json"]

    def run(self, *arguments, accepted=(0,)):
        done = subprocess.run([self.program, *arguments], capture_output=True)
        assert done.returncode in accepted, f"{arguments}: {done.stderr.decode()}"
        return done

    def plans(self):
        """Writes one plan file per policy, and two tuned plans."""
        workload = [*self.inputs, "--gpus", str(GPUS), "--global-batch", "16"]
        for policy in POLICIES:
            done = self.run("simulate", *workload, "--policy", policy, "--gpu-memory", LIMIT, "--json",
                            accepted=(0, NO_PLAN_FITS))
            path = self.folder / f"{policy}.json"
            path.write_text(json.dumps(json.loads(done.stdout)["plan"]))
            yield policy, path, json.loads(path.read_text())
        for name, more in (("tuned", []), ("tuned-tight", ["--gpu-memory", "24MiB", "--clip", "0.5"])):
            path = self.folder / f"{name}.json"
            self.run("tune", *workload, "--micro-batch", "2", *more, "-o", str(path))
            yield name, path, json.loads(path.read_text())

    def exported(self, form, path, suffix):
        """Writes the plan as `form` into a file. Every line on stderr is a choice that the form loses."""
        done = self.run("show", "plan", str(path), "--as", form)
        for line in done.stderr.decode().splitlines():
            assert line.startswith(f"athanor-sim: note: not in {form}: "), line
        target = path.with_suffix(suffix)
        target.write_bytes(done.stdout)
        return target


def share_on_host(plan, what):
    runs = [run for unit in plan["units"] for run in unit["chunks"]]
    total = sum(run["count"] for run in runs)
    return sum(run["count"] for run in runs if run[what] == "host") / total


def sequences_per_step(plan):
    return plan["micro_batch"] * plan["accumulation"] * plan["world_size"]


def clip_norm(plan):
    return plan["max_gradient_norm"] if plan["clipping"] == "wait" else 0


def check_deepspeed(programs):
    from deepspeed.runtime import config as deepspeed

    for name, path, plan in programs.plans():
        target = programs.exported("deepspeed", path, ".ds.json")
        # Only the number of ranks is not in the file: no process group is made here.
        with mock.patch.object(deepspeed, "dist") as dist:
            dist.get_world_size.return_value = plan["world_size"]
            config = deepspeed.DeepSpeedConfig(str(target))
        zero = config.zero_config
        assert config.train_batch_size == sequences_per_step(plan), name
        assert config.train_micro_batch_size_per_gpu == plan["micro_batch"], name
        assert config.gradient_accumulation_steps == plan["accumulation"], name
        assert config.gradient_clipping == clip_norm(plan), name
        assert config.bfloat16_config.enabled == (plan["dtype"] == "bfloat16"), name
        on_host = share_on_host(plan, "optimizer")
        assert (zero.offload_optimizer is not None) == (on_host > 0), name
        if on_host > 0 and zero.stage == 3:
            assert zero.offload_optimizer.ratio == on_host, name
        assert (zero.offload_param is not None) == (share_on_host(plan, "parameters") > 0), name
        yield name, f"stage {int(zero.stage)}"


def check_accelerate(programs):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser
    from accelerate.utils import FullyShardedDataParallelPlugin

    known = {action.dest for action in launch_command_parser()._actions}
    for name, path, plan in programs.plans():
        target = programs.exported("accelerate", path, ".yaml")
        config = load_config_from_file(str(target))
        as_json = target.with_suffix(".accelerate.json")
        as_json.write_bytes(target.read_bytes())
        assert load_config_from_file(str(as_json)) == config, name
        assert config.num_processes == plan["world_size"], name
        # Keys of these sections become options of `accelerate launch`.
        unknown = (set(config.fsdp_config) | set(config.deepspeed_config)) - known
        assert not unknown, f"{name}: {unknown}"
        if config.fsdp_config:
            fsdp = config.fsdp_config
            plugin = FullyShardedDataParallelPlugin(
                fsdp_version=fsdp["fsdp_version"],
                reshard_after_forward=fsdp["fsdp_reshard_after_forward"],
                activation_checkpointing=fsdp["fsdp_activation_checkpointing"],
                cpu_offload=fsdp["fsdp_offload_params"],
            )
            assert (type(plugin.cpu_offload).__name__ == "CPUOffloadPolicy") == (
                share_on_host(plan, "parameters") > 0), name
        yield name, config.distributed_type.value


def check_torchtitan(programs):
    from torchtitan.config import ConfigManager

    for name, path, plan in programs.plans():
        target = programs.exported("torchtitan", path, ".toml")
        config = ConfigManager().parse_args(["--job.config_file", str(target)])
        assert config.training.local_batch_size == plan["micro_batch"], name
        assert config.training.global_batch_size == sequences_per_step(plan), name
        assert config.training.seq_len == plan["sequence_length"], name
        assert config.training.max_norm == (clip_norm(plan) or float("inf")), name
        degree = config.parallelism
        assert degree.data_parallel_shard_degree * degree.data_parallel_replicate_degree == GPUS, name
        yield name, config.activation_checkpoint.mode


def check_hta(programs):
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    from hta.trace_analysis import TraceAnalysis

    logging.disable(logging.WARNING)
    for policy in ("ddp", "zero3", "zero3-offload"):
        folder = programs.folder / f"trace-{policy}"
        folder.mkdir()
        programs.run("simulate", *programs.inputs, "--gpus", str(GPUS), "--global-batch", "16", "--policy", policy,
                     "--trace", str(folder))
        analysis = TraceAnalysis(trace_dir=str(folder))
        assert set(analysis.t.traces) == set(range(GPUS)), policy
        events = json.loads((folder / "rank-1.json").read_text())["traceEvents"]

        def microseconds(lanes):
            return sum(e["dur"] for e in events if e["ph"] == "X" and e["tid"] in lanes)

        compute, collective, copies = microseconds({0}), microseconds({1}), microseconds({2, 3})
        # A lane never overlaps itself, so HTA's union of a kind that has one lane is our sum.
        breakdown = analysis.get_temporal_breakdown(visualize=False).set_index("rank").loc[1]
        assert abs(breakdown["compute_time(us)"] - compute) <= 1e-6 * compute, policy
        kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True, num_kernels=10**6)
        kernels = kernels[kernels["rank"] == 1].groupby("kernel_type")["sum (us)"].sum()
        for kind, expected in (("COMMUNICATION", collective), ("MEMORY", copies), ("COMPUTATION", compute)):
            assert abs(kernels.get(kind, 0) - expected) <= 1e-6 * expected, f"{policy}: {kind}"
        bandwidth = analysis.get_memory_bw_summary()
        assert (bandwidth is not None) == (copies > 0), policy
        yield policy, f"{len(kinds)} kinds of overlap"


# Names and numbers of Chakra's own schema (mlcommons/chakra 1.0.0, schema/protobuf/et_def.proto), apart from athanor's.
CHAKRA = {
    "Uint64List": "values=1:uint64*",
    "AttributeProto": "name=1:string double_val=3:double? int64_val=9:int64? uint64_val=13:uint64? "
                      "uint64_list=14:Uint64List? bool_val=27:bool? string_val=29:string?",
    "GlobalMetadata": "version=1:string attr=2:AttributeProto*",
    "Node": "id=1:uint64 name=2:string type=3:uint64 ctrl_deps=4:uint64* data_deps=5:uint64* "
            "duration_micros=7:uint64 attr=10:AttributeProto*",
}
LOAD, STORE, COMPUTE, COLLECTIVE = 2, 3, 4, 7
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = 0, 2, 7


def chakra_messages():
    """Returns message classes by name, from the table above. ?: member of the oneof "value"; *: repeated."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    scalar = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    for message, fields in CHAKRA.items():
        added = file.message_type.add(name=message)
        for text in fields.split():
            name, number, kind = text.replace("=", ":").split(":")
            field = added.field.add(name=name, number=int(number), label=3 if kind.endswith("*") else 1)
            if kind.endswith("?"):
                if not added.oneof_decl:
                    added.oneof_decl.add(name="value")
                field.oneof_index = 0
            kind = kind.rstrip("*?")
            if kind in CHAKRA:
                field.type, field.type_name = scalar.TYPE_MESSAGE, f".ChakraProtoMsg.{kind}"
            else:
                field.type = getattr(scalar, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {m: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{m}")) for m in CHAKRA}


def read_chakra(stream, message_class):
    """Reads a message as Chakra's protolib does: the length as a varint, then the message. None at the end."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    size = shift = 0
    byte = b"\x80"
    while byte[0] >= 0x80:
        byte = stream.read(1)
        if not byte:
            return None
        size |= (byte[0] & 0x7F) << shift
        shift += 7
    message = message_class()
    message.ParseFromString(stream.read(size))
    assert len(UnknownFieldSet(message)) == 0, message
    return message


def check_chakra_node(node, operation, before_on_lane, replicated):
    attributes = {a.name: getattr(a, a.WhichOneof("value")) for a in node.attr}
    assert node.name == operation["name"]
    expected = set(operation["waits"]) | ({before_on_lane} - {None})
    assert sorted(node.data_deps) == sorted(expected)
    assert all(wait < node.id for wait in node.data_deps)
    previous = attributes.get("athanor.previous_step_deps")
    assert (list(previous.values) if previous else []) == operation["previous_waits"]
    seconds = attributes["athanor.seconds"]
    assert abs(node.duration_micros - seconds * 1e6) <= 0.5 + 1e-6
    if "compute_seconds" in operation:
        assert seconds == operation["compute_seconds"]
    assert attributes["is_cpu_op"] == (operation["lane"] == "cpu-adam")
    if operation["lane"] == "collective":
        reduces = operation["kind"] == "reduce"
        assert node.type == COLLECTIVE
        reduction = ALL_REDUCE if replicated else REDUCE_SCATTER
        assert attributes["comm_type"] == (reduction if reduces else ALL_GATHER)
        assert attributes["comm_size"] == operation["bytes"] // (1 if reduces else GPUS)
    else:
        assert node.type == {"h2d": LOAD, "d2h": STORE}.get(operation["lane"], COMPUTE)


def check_chakra(programs):
    messages = chakra_messages()
    for name, path, plan in programs.plans():
        table = programs.run("show", "program", str(path), *programs.inputs[:2], "--as", "json")
        operations = json.loads(table.stdout)["operations"]
        exported = programs.run("show", "program", str(path), *programs.inputs, "--as", "chakra")
        stream = io.BytesIO(exported.stdout)
        assert read_chakra(stream, messages["GlobalMetadata"]).version == "1.0.0", name
        replicated = all(unit["sharding"] == "replicated" for unit in plan["units"])
        last = {}
        for index, operation in enumerate(operations):
            node = read_chakra(stream, messages["Node"])
            assert node.id == index, name
            check_chakra_node(node, operation, last.get(operation["lane"]), replicated)
            last[operation["lane"]] = index
        assert read_chakra(stream, messages["Node"]) is None, name
        yield name, f"{len(operations)} nodes"


def main():
    reader, program, source = sys.argv[1:]
    check = {"deepspeed": check_deepspeed, "accelerate": check_accelerate, "torchtitan": check_torchtitan,
             "hta": check_hta, "chakra": check_chakra}[reader]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as noise:
        try:
            for name, found in check(Programs(program, source, folder)):
                print(f"{name}: {found}")
        except ImportError as error:
            print(f"skipped: {error}")
            return 4
        except BaseException:
            sys.__stderr__.write(noise.getvalue())
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())

// SPDX-License-Identifier: Apache-2.0
// Traces of torch.profiler, made by hand; tests/cli/check_kineto_import.py imports real traces.
#include "sim/formats/hf_config.hpp"
#include "sim/interchange/import_kineto.hpp"
#include "tests/model/artefact_samples.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <sstream>

namespace athanor {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

constexpr int kMain = 10, kAutograd = 11;

/// Builds a trace. Times are in microseconds.
class Trace {
 public:
  void range(const char* category, const std::string& name, int thread, double start, double end) {
    add({{"ph", "X"},
         {"cat", category},
         {"name", name},
         {"tid", thread},
         {"ts", start},
         {"dur", end - start}});
  }
  void module(const std::string& name, int thread, double start, double end) {
    range("python_function", "nn.Module: " + name, thread, start, end);
  }
  /// Adds a launch at `when`, and its kernel of `microseconds`, which starts long after it.
  void kernel(int thread, double when, double microseconds, const std::string& name = "sgemm") {
    const json args{{"correlation", ++correlation_}, {"stream", 7}};
    add({{"ph", "X"},
         {"cat", "cuda_runtime"},
         {"name", "cudaLaunchKernel"},
         {"tid", thread},
         {"ts", when},
         {"dur", 1},
         {"args", args}});
    add({{"ph", "X"},
         {"cat", "kernel"},
         {"name", name},
         {"tid", 7},
         {"ts", when + 1e4},
         {"dur", microseconds},
         {"args", args}});
  }
  /// Adds a node of autograd over [start, end), made by the forward operator at `origin`.
  void node(double start, double end, int thread, double origin) {
    range("cpu_op", "autograd::engine::evaluate_function: MmBackward0", thread, start, end);
    ++flow_;
    add({{"ph", "s"}, {"cat", "fwdbwd"}, {"id", flow_}, {"tid", kMain}, {"ts", origin}});
    add({{"ph", "f"}, {"cat", "fwdbwd"}, {"id", flow_}, {"tid", thread}, {"ts", start + 0.1}});
  }
  [[nodiscard]] json document() const {
    return {{"schemaVersion", 1},
            {"deviceProperties", {{{"id", 0}, {"name", "NVIDIA A100"}}}},
            {"traceEvents", events_}};
  }
  void add(json event) {
    event["pid"] = event.value("cat", "") == "kernel" ? 0 : 1;
    events_.push_back(std::move(event));
  }

 private:
  json events_ = json::array();
  int correlation_ = 0, flow_ = 0;
};

KinetoTable read(const std::string& text, std::optional<std::int64_t> step = std::nullopt,
                 const Architecture* architecture = nullptr) {
  const OpenTrace open = [&text] { return std::make_unique<std::istringstream>(text); };
  return read_kineto_step(open, "input.json", step, architecture);
}

/// Returns microseconds by "module phase".
std::map<std::string, double> sums(const KinetoTable& table) {
  std::map<std::string, double> sums;
  for (const KinetoRow& row : table.rows) {
    sums[row.module + " " + kineto_phase_name(row.phase)] += row.total() * 1e6;
  }
  return sums;
}

Architecture tiny() { return load_architecture("gpt2-tiny"); }

/// Returns one step of gpt2-tiny: unit i computes i + 1 microseconds forward and ten times that
/// backward.
/// `named`: ranges have attribute paths, as record_function gives them, instead of modules.
Trace whole_step(bool named, bool recompute) {
  const Architecture architecture = tiny();
  Trace trace;
  trace.range("user_annotation", "ProfilerStep#3", kMain, 0, 9000);
  const int last = static_cast<int>(architecture.units.size()) - 1;
  if (!named) trace.module("GPT2LMHeadModel_0", kMain, 90, 1000);
  for (int unit = 0; unit <= last; ++unit) {
    const double at = 100 * (unit + 1);
    const double backward = 5000 - at;
    const bool block = unit > 0 && unit < last;
    const std::string path = unit == 0     ? std::string("transformer.wte")
                             : unit < last ? "transformer.h." + std::to_string(unit - 1)
                                           : std::string("lm_head");
    const auto enter = [&](int thread, double start) {
      if (named) trace.range("user_annotation", path, thread, start, start + 50);
      if (!named && block) {
        trace.module("GPT2Block_" + std::to_string(unit - 1), thread, start, start + 50);
        trace.module("Conv1D_" + std::to_string(unit), thread, start + 5, start + 20);
      }
    };
    enter(kMain, at);
    trace.kernel(kMain, at + 10, unit + 1);
    trace.node(backward, backward + 90, kAutograd, at + 9);
    if (recompute && block) {
      enter(kAutograd, backward + 1);
      trace.kernel(kAutograd, backward + 12, unit + 1);
    }
    trace.kernel(kAutograd, backward + 60, 10 * (unit + 1), "void flash_bwd_kernel");
  }
  trace.range("user_annotation", "Optimizer.step#AdamW.step", kMain, 8000, 8500);
  trace.kernel(kMain, 8001, 7, "multi_tensor_apply_kernel");
  return trace;
}

void check_units(const KinetoTable& table, bool recompute) {
  const auto found = sums(table);
  const Architecture architecture = tiny();
  std::size_t rows = 1;
  for (std::size_t unit = 0; unit < architecture.units.size(); ++unit) {
    const std::string& name = architecture.units[unit].name;
    CAPTURE(name);
    const auto expected = static_cast<double>(unit + 1);
    const bool block = unit > 0 && unit + 1 < architecture.units.size();
    CHECK(found.at(name + " forward") == Approx(expected));
    CHECK(found.at(name + " backward") == Approx(10 * expected));
    CHECK(found.contains(name + " recompute") == (recompute && block));
    if (recompute && block) CHECK(found.at(name + " recompute") == Approx(expected));
    rows += recompute && block ? 3 : 2;
  }
  CHECK(found.at("Optimizer.step#AdamW.step other") == Approx(7));
  CHECK(found.size() == rows);
  CHECK(table.passes == 1);
  CHECK(table.device == "NVIDIA A100");
}

TEST_CASE("kernels belong to the units that launched them, by module or by annotation") {
  const Architecture architecture = tiny();
  for (const bool named : {false, true}) {
    for (const bool recompute : {false, true}) {
      CAPTURE(named, recompute);
      const std::string text = whole_step(named, recompute).document().dump();
      check_units(read(text, 3, &architecture), recompute);
    }
  }
}

TEST_CASE("the order of events in the file does not matter") {
  const Architecture architecture = tiny();
  json document = whole_step(false, true).document();
  std::reverse(document["traceEvents"].begin(), document["traceEvents"].end());
  check_units(read(document.dump(), std::nullopt, &architecture), true);
}

TEST_CASE("without an architecture, rows are the innermost ranges, split by kernel class") {
  Trace trace;
  trace.range("user_annotation", "outer forward", kMain, 0, 100);
  trace.module("Linear_0", kMain, 10, 50);
  trace.kernel(kMain, 20, 1, "ampere_sgemm_128x64");
  trace.kernel(kMain, 21, 2, "ncclDevKernel_AllGather_RING_LL");
  trace.kernel(kMain, 60, 4, "flash_fwd_kernel");
  trace.kernel(kAutograd, 70, 8, "vectorized_elementwise_kernel");
  trace.kernel(kMain, 150, 16, "gelu");
  const KinetoTable table = read(trace.document().dump());
  CHECK_FALSE(table.step.has_value());
  const std::map<std::string, double> expected{
      {"nn.Module: Linear_0 forward", 3}, {"outer forward forward", 12}, {" other", 16}};
  const auto found = sums(table);
  REQUIRE(found.size() == expected.size());
  for (const auto& [name, microseconds] : expected) {
    CAPTURE(name);
    CHECK(found.at(name) == Approx(microseconds));
  }
  const KinetoRow& linear = table.rows.front();
  CHECK(linear.seconds[static_cast<std::size_t>(KernelClass::MatrixProduct)] == Approx(1e-6));
  CHECK(linear.seconds[static_cast<std::size_t>(KernelClass::Communication)] == Approx(2e-6));
  CHECK(linear.compute() == Approx(1e-6));
}

TEST_CASE(
    "a step has its own launches even if kernels run later, and the last whole step is taken") {
  Trace trace;
  for (const int step : {1, 2}) {
    const double begin = 1000 * step;
    trace.range("user_annotation", "ProfilerStep#" + std::to_string(step), kMain, begin,
                begin + 900);
    trace.kernel(kMain, begin + 5, step);
  }
  trace.range("user_annotation", "ProfilerStep#3", kMain, 3000, 3010);
  trace.kernel(kMain, 3005, 3);
  const std::string text = trace.document().dump();
  CHECK(read(text).step == 2);
  CHECK(sums(read(text)).at(" other") == Approx(2));
  CHECK(sums(read(text, 1)).at(" other") == Approx(1));
  CHECK(sums(read(text, 3)).at(" other") == Approx(3));
  const auto error = test::input_error([&] { (void)read(text, 9); });
  CHECK_THAT(error.what(), ContainsSubstring("ProfilerStep#9") && ContainsSubstring("1, 2, 3"));
}

TEST_CASE("a profile takes its seconds from the trace and keeps its bytes") {
  const Architecture architecture = tiny();
  const Profile base = test::synthetic_profile(architecture, 128, {1, 2});
  const KinetoTable kept =
      read(whole_step(false, false).document().dump(), std::nullopt, &architecture);
  const Profile profile = profile_from_kineto(kept, "trace.json", base, 2);
  profile.validate("profile.json");
  CHECK(profile.device == "NVIDIA A100");
  CHECK(profile.micro_batches() == std::vector<std::int64_t>{2});
  const UnitCost& block = profile.cost("block", 2);
  const UnitCost& former = base.cost("block", 2);
  CHECK(block.forward_keep.seconds == Approx(5e-6));  // median of blocks that take 2 to 7
  CHECK(block.recompute.seconds == Approx(5e-6));
  CHECK(block.backward.seconds == Approx(50e-6));
  CHECK(block.forward_discard.seconds / block.forward_keep.seconds ==
        Approx(former.forward_discard.seconds / former.forward_keep.seconds));
  CHECK(block.saved_bytes == former.saved_bytes);
  CHECK(block.backward.peak_bytes == former.backward.peak_bytes);
  CHECK_THAT(profile.provenance.notes, ContainsSubstring("trace.json, step 3"));

  const KinetoTable again =
      read(whole_step(false, true).document().dump(), std::nullopt, &architecture);
  const UnitCost recomputed = profile_from_kineto(again, "trace.json", base, 2).cost("block", 2);
  CHECK(recomputed.forward_discard.seconds == Approx(5e-6));
  CHECK(recomputed.forward_keep.seconds == Approx(5e-6));
}

TEST_CASE("a profile needs every unit class, and the error names missing phases") {
  const Architecture architecture = tiny();
  const Profile base = test::synthetic_profile(architecture, 128, {1, 2});
  Trace trace;
  trace.module("GPT2LMHeadModel_0", kMain, 0, 100);
  trace.module("GPT2Block_0", kMain, 10, 20);
  trace.kernel(kMain, 15, 1);
  trace.kernel(kMain, 50, 1);
  const KinetoTable table = read(trace.document().dump(), std::nullopt, &architecture);
  const auto error =
      test::input_error([&] { (void)profile_from_kineto(table, "trace.json", base, 2); });
  CHECK_THAT(error.what(),
             ContainsSubstring("embedding forward, embedding backward, block forward, "
                               "block backward, head backward"));
  const KinetoTable whole =
      read(whole_step(false, false).document().dump(), std::nullopt, &architecture);
  CHECK_THROWS_AS(profile_from_kineto(whole, "trace.json", base, 3), InputError);
}

TEST_CASE("broken traces are refused with the path of the value") {
  const std::string text = whole_step(false, false).document().dump();
  test::check_rejects_truncated(text, [](const std::string& cut) { (void)read(cut); });
  const auto refused = [&](const std::string& broken) {
    return std::string(test::input_error([&] { (void)read(broken); }).what());
  };
  CHECK_THAT(refused(""), ContainsSubstring("not valid JSON"));
  CHECK_THAT(refused("{}"), ContainsSubstring("traceEvents"));
  CHECK_THAT(refused("[1, 2]"), ContainsSubstring("traceEvents"));
  CHECK_THAT(refused("{\"traceEvents\": []} x"), ContainsSubstring("not valid JSON"));
  const auto event = [](const std::string& members) {
    return "{\"traceEvents\": [{}, {\"ph\": \"X\", " + members + "}]}";
  };
  CHECK_THAT(refused(event("\"ts\": -1")), ContainsSubstring("traceEvents[1].ts"));
  CHECK_THAT(refused(event("\"dur\": -0.5")), ContainsSubstring("traceEvents[1].dur"));
  CHECK_THAT(refused(event("\"dur\": \"5\"")), ContainsSubstring("traceEvents[1].dur"));
  CHECK_THAT(refused(event("\"dur\": NaN")), ContainsSubstring("traceEvents[1].dur"));
  CHECK_THAT(refused(event("\"dur\": 1e999")), ContainsSubstring("not valid JSON"));
  CHECK_THAT(refused(event("\"name\": 5")), ContainsSubstring("traceEvents[1].name"));
  CHECK_THAT(refused(event("\"args\": {\"correlation\": \"7\"}")),
             ContainsSubstring("traceEvents[1].correlation"));
  const std::string deep(100'000, '[');
  CHECK_THAT(refused("{\"traceEvents\": " + deep), ContainsSubstring("not valid JSON"));
}

}  // namespace
}  // namespace athanor

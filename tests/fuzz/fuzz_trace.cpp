// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of timelines. Whatever the text, it either throws an InputError or returns a
// timeline that can be written and read back with the same intervals.
#include "sim/base/errors.hpp"
#include "sim/formats/trace.hpp"
#include "sim/model/timeline.hpp"

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace {

athanor::Program two_operations() {
  athanor::Program program;
  program.unit_names = {"embedding"};
  program.layouts.resize(1);
  for (const auto kind : {athanor::OpKind::Forward, athanor::OpKind::Backward}) {
    athanor::Operation op;
    op.kind = kind;
    op.unit = 0;
    op.micro_batch = 0;
    program.operations.push_back(op);
  }
  return program;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const athanor::Program program = two_operations();
  athanor::Timeline timeline;
  try {
    timeline = athanor::parse_trace({reinterpret_cast<const char*>(data), size}, "input", program);
  } catch (const athanor::InputError&) {
    return 0;
  }
  std::ostringstream text;
  write_trace(text, program, timeline);
  // An exception here is a finding too.
  if (athanor::parse_trace(text.str(), "written", program).intervals.size() !=
      timeline.intervals.size()) {
    std::abort();
  }
  return 0;
}

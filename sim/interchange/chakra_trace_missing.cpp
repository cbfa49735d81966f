// SPDX-License-Identifier: Apache-2.0
// Stands in for chakra_trace.cpp in a build without protobuf.
#include "sim/base/errors.hpp"
#include "sim/interchange/chakra_trace.hpp"

namespace athanor::cli {

std::string chakra_trace(const Program& /*program*/, const std::vector<Seconds>& /*solo_seconds*/) {
  throw InputError("--as chakra", "this athanor-sim was built without protobuf",
                   "Install libprotobuf-dev and protobuf-compiler, and build again.");
}

}  // namespace athanor::cli

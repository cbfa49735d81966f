// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/rank_store.hpp"

#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <charconv>
#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace athanor::cuda {
namespace {

constexpr std::chrono::seconds kPatience{120};

int read_number(const char* name, const std::string& kind, int maximum) {
  const std::string_view text = environment_variable(name);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number < 0 ||
      number > maximum) {
    throw InputError(fmt::format("environment:{}", name), fmt::format("'{}' is no {}", text, kind),
                     "Start the ranks with --gpus or torchrun.");
  }
  return number;
}

/// Whether torchrun keeps a store of its own at that address; otherwise rank 0 does.
bool launcher_keeps_store() {
  return environment_variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
}

/// Returns the descriptor that --gpus passed to rank 0, if any, and hides it from processes that
/// this one may start.
std::optional<int> take_listen_descriptor() {
  if (environment_variable(kListenDescriptor).empty()) return std::nullopt;
  const int number = read_number(kListenDescriptor, "descriptor", std::numeric_limits<int>::max());
  ::unsetenv(kListenDescriptor);
  return number;
}

}  // namespace

c10::intrusive_ptr<c10d::Store> join_rank_store(const RankInfo& rank) {
  const std::string_view given = environment_variable("MASTER_ADDR");
  const std::string address(given.empty() ? "127.0.0.1" : given);
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(
      read_number("MASTER_PORT", "port", std::numeric_limits<std::uint16_t>::max()));
  options.isServer = rank.rank == 0 && !launcher_keeps_store();
  options.waitWorkers = false;
  options.timeout = kPatience;
  if (options.isServer) options.masterListenFd = take_listen_descriptor();
  try {
    return c10::make_intrusive<c10d::TCPStore>(address, options);
  } catch (const c10::Error& error) {
    throw Error(fmt::format("rank {} cannot {} {}:{} (MASTER_ADDR, MASTER_PORT): {}", rank.rank,
                            options.isServer ? "listen for the others at" : "reach rank 0 at",
                            address, options.port, error.what_without_backtrace()));
  }
}

}  // namespace athanor::cuda

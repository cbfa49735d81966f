// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/rank_store.hpp"

#include "executor/rendezvous/network_socket.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace athanor {
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

std::string master_address() {
  const std::string_view given = environment_variable("MASTER_ADDR");
  return std::string(given.empty() ? "127.0.0.1" : given);
}

/// Returns a descriptor that listens at the job's address and at no other of this machine. Nothing
/// where that is not this machine's own (the others come through a gateway), or is one that its
/// name has here alone: the store then listens everywhere.
std::optional<int> listen_where_others_come(const RankInfo& rank, std::uint16_t port) {
  const std::optional<std::uint32_t> address = resolve(master_address());
  if (!address || (is_loopback(*address) && !rank.is_on_one_machine())) return std::nullopt;
  return listen_at_port({*address, port});
}

/// Returns what keeps the keys of this job apart from those of others in the store: a job's own
/// earlier start is one, too.
std::string key_prefix() {
  return fmt::format("athanor/{}/{}", environment_variable("TORCHELASTIC_RUN_ID"),
                     environment_variable("TORCHELASTIC_RESTART_COUNT"));
}

}  // namespace

std::vector<std::uint32_t> addresses_for_ranks(const RankInfo& rank) {
  const std::optional<std::uint32_t> master = resolve(master_address());
  if (!master || (is_loopback(*master) && !rank.is_on_one_machine())) return own_addresses();
  const std::vector<std::uint32_t> own = own_addresses();
  const bool is_here = is_loopback(*master) || std::ranges::find(own, *master) != own.end();
  return is_here ? std::vector{*master} : addresses_towards({&*master, 1});
}

c10::intrusive_ptr<c10d::Store> join_rank_store(const RankInfo& rank) {
  const std::string address = master_address();
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(
      read_number("MASTER_PORT", "port", std::numeric_limits<std::uint16_t>::max()));
  options.isServer = rank.rank == 0 && !launcher_keeps_store();
  options.waitWorkers = false;
  options.timeout = kPatience;
  const auto failure = [&](const std::string& why) {
    return Error(fmt::format("rank {} cannot {} {}:{} (MASTER_ADDR, MASTER_PORT): {}", rank.rank,
                             options.isServer ? "listen for the others at" : "reach rank 0 at",
                             address, options.port, why));
  };
  try {
    if (options.isServer) options.masterListenFd = take_listen_descriptor();
    if (options.isServer && !options.masterListenFd) {
      options.masterListenFd = listen_where_others_come(rank, options.port);
    }
    return c10::make_intrusive<c10d::PrefixStore>(
        key_prefix(), c10::make_intrusive<c10d::TCPStore>(address, options));
  } catch (const c10::Error& error) {
    throw failure(error.what_without_backtrace());
  } catch (const std::system_error& error) {
    throw failure(error.what());
  }
}

}  // namespace athanor

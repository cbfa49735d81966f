// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/nccl_collectives.hpp"
#include "sim/model/errors.hpp"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::cuda {
namespace {

constexpr const char* kIdKey = "athanor/nccl-id";
constexpr std::chrono::seconds kPatience{120};

std::uint16_t read_port() {
  const char* const text = std::getenv("MASTER_PORT");
  const std::string_view port = text == nullptr ? "" : text;
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || error != std::errc() || end != port.data() + port.size()) {
    throw InputError("environment:MASTER_PORT", "'" + std::string(port) + "' is not a port",
                     "Start the ranks with --nproc or torchrun.");
  }
  return number;
}

/// torchrun keeps a store of its own at that address; otherwise rank 0 does.
bool launcher_keeps_store() {
  const char* const text = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  return text != nullptr && std::string_view(text) == "True";
}

}  // namespace

ncclUniqueId meet_ranks(const RankInfo& rank) {
  const char* const address = std::getenv("MASTER_ADDR");
  c10d::TCPStoreOptions options;
  options.port = read_port();
  options.isServer = rank.rank == 0 && !launcher_keeps_store();
  options.waitWorkers = false;
  options.timeout = kPatience;
  // Lives on in rank 0, since others may still be reading.
  static const auto store =
      c10::make_intrusive<c10d::TCPStore>(address == nullptr ? "127.0.0.1" : address, options);
  ncclUniqueId id{};
  if (rank.rank == 0) {
    if (ncclGetUniqueId(&id) != ncclSuccess) throw Error("NCCL: no unique id");
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(id.internal);
    store->set(kIdKey, std::vector<std::uint8_t>(bytes, bytes + sizeof(id.internal)));
  } else {
    const std::vector<std::uint8_t> bytes = store->get(kIdKey);
    if (bytes.size() != sizeof(id.internal)) throw Error("another job uses MASTER_PORT");
    std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
  }
  return id;
}

}  // namespace athanor::cuda

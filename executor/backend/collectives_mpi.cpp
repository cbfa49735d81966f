// SPDX-License-Identifier: Apache-2.0
// Every collective first meets (a non-blocking barrier: a rank may come late by a whole backward
// pass) and then moves its data, which every rank has to poll for.
#include "executor/backend/collectives_mpi.hpp"

#include "executor/backend/mpi_wait.hpp"
#include "sim/base/errors.hpp"

#include <mpi.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// Bytes of MPI's element. MPI counts are ints: cache lines reach 128 GiB, bytes only 2 GiB.
constexpr Bytes kLine = 64;

/// Initializes and finalizes MPI, unless somebody else has initialized it.
class MpiSession {
 public:
  MpiSession() {
    int initialized = 0;
    check_mpi(MPI_Initialized(&initialized));
    owns_ = initialized == 0;
    if (owns_) {
      int provided = 0;
      check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided));
    }
    int provided = 0;
    check_mpi(MPI_Query_thread(&provided));
    if (provided < MPI_THREAD_SERIALIZED) {
      throw Error("MPI was initialized without thread support; MPI_THREAD_SERIALIZED is needed");
    }
  }
  ~MpiSession() {
    if (owns_) {
      MPI_Finalize();
    }
  }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

 private:
  bool owns_ = false;
};

class MpiCollectives final : public HostCollectives {
 public:
  /// Takes over `communicator`.
  MpiCollectives(std::shared_ptr<MpiSession> session, MPI_Comm communicator)
      : session_(std::move(session)), communicator_(communicator) {
    check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN));
    check_mpi(MPI_Comm_rank(communicator_, &rank_));
    check_mpi(MPI_Comm_size(communicator_, &world_size_));
    check_mpi(MPI_Type_contiguous(static_cast<int>(kLine), MPI_BYTE, &line_));
    check_mpi(MPI_Type_commit(&line_));
  }

  ~MpiCollectives() override {
    if (has_failed()) {
      // Requests are pending and peers may be gone: finalizing would wait for them forever.
      static auto* const kept = new std::vector<std::shared_ptr<MpiSession>>();
      kept->push_back(session_);
      return;
    }
    MPI_Type_free(&line_);
    MPI_Comm_free(&communicator_);
  }

  MpiCollectives(const MpiCollectives&) = delete;
  MpiCollectives& operator=(const MpiCollectives&) = delete;

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int world_size() const noexcept override { return world_size_; }

  [[nodiscard]] std::unique_ptr<HostCollectives> among(const std::vector<int>& members) override {
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm communicator = MPI_COMM_NULL;
    check_mpi(MPI_Comm_group(communicator_, &all));
    check_mpi(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some));
    check_mpi(MPI_Comm_create_group(communicator_, some, members.front(), &communicator));
    check_mpi(MPI_Group_free(&some));
    check_mpi(MPI_Group_free(&all));
    return std::make_unique<MpiCollectives>(session_, communicator);
  }

 private:
  struct Message {
    int count = 0;
    MPI_Datatype type = MPI_BYTE;
  };

  [[nodiscard]] Message message(Bytes bytes) const {
    const bool lines = bytes % kLine == 0;
    const Bytes count = lines ? bytes / kLine : bytes;
    if (count > std::numeric_limits<int>::max()) {
      throw Error("collective: a part of " + std::to_string(bytes) +
                  " bytes is too large for MPI; use smaller chunks");
    }
    return {static_cast<int>(count), lines ? line_ : MPI_BYTE};
  }

  void meet() override { synchronize(); }

  void synchronize() override {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(communicator_, &request));
    wait_for(request, cancelled_);
  }

  void move_all_gather(void* buffer, Bytes part_bytes) override {
    const Message part = message(part_bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, part.count, part.type,
                             communicator_, &request));
    wait_for(request, cancelled_);
  }

  void move_all_to_all(const void* from, void* to, Bytes part_bytes) override {
    const Message part = message(part_bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ialltoall(from, part.count, part.type, to, part.count, part.type, communicator_,
                            &request));
    wait_for(request, cancelled_);
  }

  void move_shift(int to, int from, const Shifted& part) override {
    constexpr int kTag = 1;
    const Message sent = message(part.bytes);
    MPI_Request receive = MPI_REQUEST_NULL, send = MPI_REQUEST_NULL;
    if (from >= 0) {
      check_mpi(MPI_Irecv(part.in, sent.count, sent.type, from, kTag, communicator_, &receive));
    }
    if (to >= 0) {
      check_mpi(MPI_Isend(part.out, sent.count, sent.type, to, kTag, communicator_, &send));
    }
    if (from >= 0) wait_for(receive, cancelled_);
    if (to >= 0) wait_for(send, cancelled_);
  }

  std::shared_ptr<MpiSession> session_;  // first: finalizes after everything else is freed
  MPI_Comm communicator_ = MPI_COMM_NULL;
  MPI_Datatype line_ = MPI_DATATYPE_NULL;
  int rank_ = 0;
  int world_size_ = 1;
};

}  // namespace

std::unique_ptr<HostCollectives> make_mpi_collectives() {
  auto session = std::make_shared<MpiSession>();
  MPI_Comm communicator = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator));
  return std::make_unique<MpiCollectives>(std::move(session), communicator);
}

void abort_job(int exit_code) noexcept {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized != 0 && finalized == 0) {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  std::_Exit(exit_code);
}

}  // namespace athanor

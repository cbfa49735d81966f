// SPDX-License-Identifier: Apache-2.0
// Every collective first meets (a non-blocking barrier: a rank may come late by a whole backward
// pass) and then moves its data, which every rank has to poll for. Sums are done here and not by
// MPI, whose order of summation depends on algorithm and size.
#include "executor/backend/collectives_mpi.hpp"

#include "executor/backend/mpi_wait.hpp"
#include "executor/cpu/rank_order_sum.hpp"
#include "sim/base/errors.hpp"

#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
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

class MpiCollectives final : public Collectives {
 public:
  MpiCollectives() : session_(std::make_unique<MpiSession>()) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_));
    check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN));
    check_mpi(MPI_Comm_rank(communicator_, &rank_));
    check_mpi(MPI_Comm_size(communicator_, &world_size_));
    check_mpi(MPI_Type_contiguous(static_cast<int>(kLine), MPI_BYTE, &line_));
    check_mpi(MPI_Type_commit(&line_));
  }

  ~MpiCollectives() override {
    if (failed_) {
      // Requests are pending and peers may be gone: finalizing would wait for them forever.
      static_cast<void>(session_.release());
      return;
    }
    MPI_Type_free(&line_);
    MPI_Comm_free(&communicator_);
  }

  MpiCollectives(const MpiCollectives&) = delete;
  MpiCollectives& operator=(const MpiCollectives&) = delete;

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int world_size() const noexcept override { return world_size_; }

  void all_gather(void* buffer, Bytes part_bytes) override {
    guarded([&] {
      meet();
      move_all_gather(buffer, part_bytes);
    });
  }

  void reduce_scatter(void* buffer, std::int64_t elements, DataType dtype) override {
    if (elements % world_size_ != 0) {
      throw Error("reduce_scatter: " + std::to_string(elements) + " elements do not divide by " +
                  std::to_string(world_size_) + " ranks");
    }
    guarded([&] {
      meet();
      sum_own_part(buffer, elements / world_size_, dtype);
    });
  }

  void all_reduce(void* buffer, std::int64_t elements, DataType dtype) override {
    guarded([&] {
      meet();
      const std::int64_t part = elements / world_size_;
      if (part > 0) {
        sum_own_part(buffer, part, dtype);
        move_all_gather(buffer, part * size_of(dtype));
      }
      const std::int64_t whole = part * world_size_;
      sum_everywhere(static_cast<std::byte*>(buffer) + whole * size_of(dtype), elements - whole,
                     dtype);
    });
  }

  void all_to_all(const void* from, void* to, Bytes part_bytes) override {
    guarded([&] {
      meet();
      move_all_to_all(from, to, message(part_bytes));
    });
  }

  void barrier() override {
    guarded([&] { meet(); });
  }

 private:
  struct Message {
    int count = 0;
    MPI_Datatype type = MPI_BYTE;
  };

  void guarded(const std::function<void()>& collective) {
    if (failed_) {
      throw Error("a collective failed before; the job cannot go on");
    }
    failed_ = true;
    collective();
    failed_ = false;
  }

  [[nodiscard]] Message message(Bytes bytes) const {
    const bool lines = bytes % kLine == 0;
    const Bytes count = lines ? bytes / kLine : bytes;
    if (count > std::numeric_limits<int>::max()) {
      throw Error("collective: a part of " + std::to_string(bytes) +
                  " bytes is too large for MPI; use smaller chunks");
    }
    return {static_cast<int>(count), lines ? line_ : MPI_BYTE};
  }

  void meet() {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(communicator_, &request));
    wait_for(request, cancelled_);
  }

  void move_all_gather(void* buffer, Bytes part_bytes) {
    const Message part = message(part_bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, part.count, part.type,
                             communicator_, &request));
    wait_for(request, cancelled_);
  }

  void move_all_to_all(const void* from, void* to, const Message& part) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ialltoall(from, part.count, part.type, to, part.count, part.type, communicator_,
                            &request));
    wait_for(request, cancelled_);
  }

  /// Replaces part rank() of `buffer` by the sum over ranks. The other parts stay as they are.
  void sum_own_part(void* buffer, std::int64_t part_elements, DataType dtype) {
    const Bytes part_bytes = part_elements * size_of(dtype);
    const Message part = message(part_bytes);
    std::byte* const received = work(part_bytes);
    move_all_to_all(buffer, received, part);
    sum_work(static_cast<std::byte*>(buffer) + rank_ * part_bytes, part_elements, dtype);
  }

  /// Sums the rest that does not divide by the number of ranks: fewer than world_size elements.
  void sum_everywhere(void* buffer, std::int64_t elements, DataType dtype) {
    if (elements == 0) {
      return;
    }
    const Message part = message(elements * size_of(dtype));
    std::byte* const received = work(elements * size_of(dtype));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(buffer, part.count, part.type, received, part.count, part.type,
                             communicator_, &request));
    wait_for(request, cancelled_);
    sum_work(buffer, elements, dtype);
  }

  /// Returns room for one part from every rank, kept between calls.
  std::byte* work(Bytes part_bytes) {
    const auto needed = static_cast<std::size_t>(part_bytes * world_size_);
    if (work_.size() < needed) {
      work_.resize(needed);
    }
    return work_.data();
  }

  void sum_work(void* to, std::int64_t elements, DataType dtype) {
    std::vector<const void*> parts;
    for (int rank = 0; rank < world_size_; ++rank) {
      parts.push_back(work_.data() + rank * elements * size_of(dtype));
    }
    rank_order_sum(to, parts, elements, dtype);
  }

  std::unique_ptr<MpiSession> session_;  // first: finalizes after everything else is freed
  MPI_Comm communicator_ = MPI_COMM_NULL;
  MPI_Datatype line_ = MPI_DATATYPE_NULL;
  int rank_ = 0;
  int world_size_ = 1;
  bool failed_ = false;  ///< an exception has left a call
  std::vector<std::byte> work_;
};

}  // namespace

std::unique_ptr<Collectives> make_mpi_collectives() { return std::make_unique<MpiCollectives>(); }

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

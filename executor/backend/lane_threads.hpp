// SPDX-License-Identifier: Apache-2.0
// What the operating system is told about the threads that run lanes.
#pragma once

namespace athanor {

/// Binds the calling thread, and the threads that it starts from now on, to `threads` cores that no
/// other rank of the job binds, so that two ranks' compute lanes never share one while another is
/// idle. Does nothing where the process may use fewer than ranks * threads cores, or where `ranks`
/// is 1: then nobody is in the way.
void bind_compute_lane(int rank, int ranks, int threads) noexcept;

/// Lets the calling thread's short sleeps end on time (the system rounds them up to 50 us).
void use_precise_sleeps() noexcept;

}  // namespace athanor

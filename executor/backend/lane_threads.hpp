// SPDX-License-Identifier: Apache-2.0
// Settings of the operating system for threads that run lanes.
#pragma once

namespace athanor {

/// Binds the calling thread, and the threads that it starts from now on, to `threads` cores that no
/// other rank of the job binds. So two ranks' compute lanes never share a core while another is
/// idle. Does nothing where the process may use fewer than ranks * threads cores, or with one rank,
/// which shares with nobody.
void bind_compute_lane(int rank, int ranks, int threads) noexcept;

/// Lets the calling thread's short sleeps end on time (the system rounds them up to 50 us).
void use_precise_sleeps() noexcept;

}  // namespace athanor

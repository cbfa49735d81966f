// SPDX-License-Identifier: Apache-2.0
// Checks of what a profile is asked for, before anything is measured.
#pragma once

#include "calibrate/profile/profile_model.hpp"
#include "executor/units/language_model.hpp"

namespace athanor {

/// Throws InputError on options out of range, naming the option.
void check_options(const ProfileOptions& options);

/// Throws InputError on numbers of ranks that `model` has nothing to divide among, naming the
/// option and the way out.
void check_ranks(const Model& model, const ProfileOptions& options);

}  // namespace athanor

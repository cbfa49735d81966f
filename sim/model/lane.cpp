// SPDX-License-Identifier: Apache-2.0
#include "sim/model/lane.hpp"

#include "sim/model/enum_names.hpp"

namespace athanor {

const char* lane_name(Lane lane) noexcept { return name_of(kLaneNames, lane).data(); }

}  // namespace athanor

/// `options={"guard_filter_fn": ...}` of `torch.compile`: the user decides which guards are not checked.
#pragma once

#include <span>
#include <vector>

#include "base/ref.h"
#include "guard/guard.h"

namespace stator {

/// The guards that the filter keeps, and those without which `fetched` can't be read safely. Throws PythonError.
std::vector<Guard> filtered(std::span<const Guard> guards, std::span<Source* const> fetched, Borrowed<> filter);

}  // namespace stator

/// What abstract base classes remember of registrations.
#pragma once

#include <cstdint>

namespace stator::cpython {

/// Grows with each registration in any abstract base class. While it stays the same, so do their answers.
std::uint64_t abstract_class_token();

}  // namespace stator::cpython

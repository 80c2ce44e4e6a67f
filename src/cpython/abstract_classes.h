/// Registrations in abstract base classes.
#pragma once

#include <cstdint>

namespace stator::cpython {

/// Increases with each registration in any abstract base class. While it is unchanged, so are `issubclass` answers.
std::uint64_t abstract_class_token();

}  // namespace stator::cpython

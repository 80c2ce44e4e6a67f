/// Aliased inputs of a graph that writes to one of them.
///
/// Backends assume that inputs don't alias: compiled code may read an input before or after a write to its alias.
/// Whether inputs alias is not part of their metadata, so it is checked on each call.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <vector>

namespace stator {

class SharedMemory {
  public:
    SharedMemory() = default;
    /// For `count` inputs, of which those at the positions `written` are written to.
    SharedMemory(std::size_t count, std::span<const std::size_t> written);

    /// Whether a write to an input may be visible in another one. Conservative if strides leave gaps.
    bool matters(std::span<PyObject* const> inputs);

  private:
    struct Part {
        std::uintptr_t begin, end;
        std::uint32_t input;
    };
    void sort();

    std::vector<bool> is_written_;
    /// Sorted by address at the last check: parameters rarely move, so sorting again is cheap.
    std::vector<Part> parts_;
};

}  // namespace stator

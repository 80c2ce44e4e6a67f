/// Inputs of a graph that lie in the same memory, where the graph writes to one of them.
///
/// A backend takes each input for memory of its own: what it makes of such a graph would read a value before or after
/// the write, as it likes. Whether inputs share memory is not in their metadata, so it is looked at on each call.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <vector>

namespace stator {

class SharedMemory {
  public:
    SharedMemory() = default;
    /// Of `count` inputs those at the positions `written` are written to.
    SharedMemory(std::size_t count, std::span<const std::size_t> written);

    /// Whether a write to an input can be seen in another one. Where strides leave gaps, it may say so in vain.
    bool matters(std::span<PyObject* const> inputs);

  private:
    struct Part {
        std::uintptr_t begin, end;
        std::uint32_t input;
    };
    void sort();

    std::vector<bool> is_written_;
    /// In order of memory at the last look: parameters stay where they are, so little has to be moved.
    std::vector<Part> parts_;
};

}  // namespace stator

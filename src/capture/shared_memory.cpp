#include "capture/shared_memory.h"

#include <algorithm>
#include <tuple>

#include "torch/tensor.h"

namespace stator {

SharedMemory::SharedMemory(std::size_t count, std::span<const std::size_t> written)
    : is_written_(count), parts_(count) {
    for (std::size_t input : written) is_written_[input] = true;
    for (std::size_t i = 0; i < count; ++i) parts_[i] = {0, 0, static_cast<std::uint32_t>(i)};
}

void SharedMemory::sort() {
    for (std::size_t i = 1; i < parts_.size(); ++i) {
        if (parts_[i - 1].begin <= parts_[i].begin) continue;
        Part moved = parts_[i];
        std::size_t place = i;
        for (; place > 0 && parts_[place - 1].begin > moved.begin; --place) parts_[place] = parts_[place - 1];
        parts_[place] = moved;
    }
}

bool SharedMemory::matters(std::span<PyObject* const> inputs) {
    if (parts_.empty()) return false;
    for (Part& part : parts_) std::tie(part.begin, part.end) = torch_room::memory_of(inputs[part.input]);
    sort();
    std::uintptr_t read_until = 0, written_until = 0;
    for (const Part& part : parts_) {
        bool is_written = is_written_[part.input];
        if (part.begin < written_until || (is_written && part.begin < read_until)) return true;
        (is_written ? written_until : read_until) = std::max(is_written ? written_until : read_until, part.end);
    }
    return false;
}

}  // namespace stator

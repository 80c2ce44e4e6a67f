#include "base/arena.h"

#include <cstdint>

#include "base/alive.h"

namespace stator {

Arena::~Arena() {
    for (auto finalizer = finalizers_.rbegin(); finalizer != finalizers_.rend(); ++finalizer)
        finalizer->run(finalizer->object);
    if (!blocks_.empty()) count_alive(Alive::Arenas, -1);
}

void* Arena::allocate(std::size_t size, std::size_t alignment) {
    bytes_used_ += size;
    auto align = [alignment](std::byte* pointer) {
        auto address = reinterpret_cast<std::uintptr_t>(pointer);
        return pointer + (alignment - address % alignment) % alignment;
    };
    std::byte* start = next_ == nullptr ? nullptr : align(next_);
    if (start == nullptr || start + size > end_) {
        std::size_t block = size + alignment > kBlockSize ? size + alignment : kBlockSize;
        if (blocks_.empty()) count_alive(Alive::Arenas, 1);
        blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(block));
        next_ = blocks_.back().get();
        end_ = next_ + block;
        start = align(next_);
    }
    next_ = start + size;
    return start;
}

}  // namespace stator

#include "base/stack_room.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace stator {

namespace {

constexpr std::size_t kReserve = 512 * 1024;

/// The lowest address of the stack; zero if the system does not provide it.
std::uintptr_t lowest_address() {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
    void* stack = nullptr;
    std::size_t size = 0;
    int failed = pthread_attr_getstack(&attributes, &stack, &size);
    pthread_attr_destroy(&attributes);
    if (failed != 0 || size < 2 * kReserve) return 0;
    return reinterpret_cast<std::uintptr_t>(stack) + kReserve;
}

}  // namespace

bool is_stack_low() {
    thread_local const std::uintptr_t lowest = lowest_address();
    // Not the address of a variable, which the address sanitizer may move off the stack.
    return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < lowest;
}

}  // namespace stator

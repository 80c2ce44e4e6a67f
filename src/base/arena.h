/// Memory of one trace: thousands of small objects that point to each other freely and are freed together.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/ref.h"

namespace stator {

/// Bump allocation with destructors run in reverse order of construction. Also keeps Python objects alive, so that what
/// lives in the arena can hold `Borrowed` pointers.
class Arena {
  public:
    Arena() = default;
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena();

    template <class T, class... Args>
    T* make(Args&&... args) {
        void* memory = allocate(sizeof(T), alignof(T));
        T* object = new (memory) T{std::forward<Args>(args)...};
        if constexpr (!std::is_trivially_destructible_v<T>)
            finalizers_.push_back({[](void* pointer) { static_cast<T*>(pointer)->~T(); }, object});
        return object;
    }

    void* allocate(std::size_t size, std::size_t alignment);

    /// Adds a reference that lives as long as the arena.
    template <class T>
    T* keep(Ref<T> object) {
        kept_.push_back(Ref<>::steal(reinterpret_cast<PyObject*>(object.release())));
        return reinterpret_cast<T*>(kept_.back().get());
    }

    /// For the garbage collector: visits the objects that this arena keeps alive.
    template <class Visit>
    int visit_kept(const Visit& visit) const {
        for (const Ref<>& object : kept_)
            if (int stop = visit(object.get())) return stop;
        return 0;
    }

    std::size_t bytes_used() const { return bytes_used_; }

  private:
    struct Finalizer {
        void (*run)(void*);
        void* object;
    };
    static constexpr std::size_t kBlockSize = 64 * 1024;

    std::vector<std::unique_ptr<std::byte[]>> blocks_;
    std::byte* next_ = nullptr;
    std::byte* end_ = nullptr;
    std::size_t bytes_used_ = 0;
    std::vector<Finalizer> finalizers_;
    std::vector<Ref<>> kept_;
};

}  // namespace stator

/// Objects with several owners.
#pragma once

#include <cstdint>
#include <utility>

namespace stator {

/// The base class of objects that `Shared` owns.
struct Counted {
    std::uint32_t owners = 0;

    Counted() = default;
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
};

/// One of the owners of a `T`, which is freed with the last of them. All owners hold the GIL, so counting
/// needs no atomic operations. A plain pointer can be made an owner again while there is another owner.
template <class T>
class Shared {
  public:
    constexpr Shared() = default;
    constexpr Shared(std::nullptr_t) {}
    explicit Shared(T* object) : object_(object) {
        if (object_ != nullptr) ++object_->owners;
    }
    template <class... Arguments>
    static Shared make(Arguments&&... arguments) {
        return Shared(new T(std::forward<Arguments>(arguments)...));
    }

    Shared(const Shared& other) : Shared(other.object_) {}
    Shared(Shared&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Shared& operator=(Shared other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Shared() {
        if (object_ != nullptr && --object_->owners == 0) delete object_;
    }

    T* get() const { return object_; }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }
    explicit operator bool() const { return object_ != nullptr; }
    friend bool operator==(const Shared& left, const Shared& right) { return left.object_ == right.object_; }
    bool is_only_owner() const { return object_->owners == 1; }

  private:
    T* object_ = nullptr;
};

}  // namespace stator

/// A list of plain values that needs no allocation as long as it is short.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace stator {

/// Up to `kHere` values are in the object itself, which is meant for the C stack.
template <class T, std::size_t kHere>
class ShortList {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

  public:
    ShortList() {}  // not defaulted: `{}` would fill `here_` with zeros
    explicit ShortList(std::span<T const> values) {
        reserve(values.size());
        if (!values.empty()) std::memcpy(values_, values.data(), values.size() * sizeof(T));
        size_ = values.size();
    }
    ShortList(const ShortList&) = delete;
    ShortList& operator=(const ShortList&) = delete;

    void push_back(T value) {
        if (size_ == capacity_) [[unlikely]]
            reserve(2 * capacity_);
        values_[size_++] = value;
    }
    void pop_back() { --size_; }
    void reserve(std::size_t capacity) {
        if (capacity <= capacity_) return;
        auto larger = std::make_unique_for_overwrite<T[]>(capacity);
        std::memcpy(larger.get(), values_, size_ * sizeof(T));
        allocated_ = std::move(larger);
        values_ = allocated_.get();
        capacity_ = capacity;
    }

    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) { return values_[i]; }
    const T& operator[](std::size_t i) const { return values_[i]; }
    T& back() { return values_[size_ - 1]; }
    T* begin() { return values_; }
    T* end() { return values_ + size_; }
    const T* begin() const { return values_; }
    const T* end() const { return values_ + size_; }
    operator std::span<T const>() const { return {values_, size_}; }

  private:
    T here_[kHere];
    std::unique_ptr<T[]> allocated_;
    T* values_ = here_;
    std::size_t size_ = 0, capacity_ = kHere;
};

}  // namespace stator

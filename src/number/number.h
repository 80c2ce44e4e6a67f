/// A number of the program in machine form: an int of 64 bits or a float.
#pragma once

#include <Python.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <string>

#include "base/ref.h"

namespace stator {

class Number {
  public:
    Number() = default;
    static Number of_int(std::int64_t value) { return {false, static_cast<std::uint64_t>(value)}; }
    static Number of_float(double value) { return {true, std::bit_cast<std::uint64_t>(value)}; }
    /// From an int that fits or a float, of exactly these classes. Empty for other objects.
    static std::optional<Number> of(PyObject* object);

    bool is_float() const { return is_float_; }
    std::int64_t integer() const { return static_cast<std::int64_t>(bits_); }
    /// An int becomes the nearest float, as in Python's arithmetic.
    double real() const { return is_float_ ? std::bit_cast<double>(bits_) : static_cast<double>(integer()); }
    /// Throws PythonError.
    Ref<> object() const;

    /// Same type and same bits: 1 is not 1.0, 0.0 is not -0.0, a NaN equals itself.
    friend bool operator==(const Number&, const Number&) = default;

  private:
    Number(bool is_float, std::uint64_t bits) : is_float_(is_float), bits_(bits) {}

    bool is_float_ = false;
    std::uint64_t bits_ = 0;
};

/// As Python writes it.
std::string print(Number number);

}  // namespace stator

/// An argument as rules read it. Each reader returns a value only for the form that it names, so that a rule which does
/// not support a form of an argument leaves the question to the fallback.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/node.h"
#include "torch/dtypes.h"
#include "torch/meta.h"
#include "torch/names.h"

namespace stator::shape {

using torch_room::Device;
using torch_room::Dim;
using torch_room::Dims;
using torch_room::Dtype;
using torch_room::TensorMeta;

inline bool is_on_cpu(const TensorMeta& meta) {
    return meta.device.kind == torch_room::DeviceKind{};
}

class Operand {
  public:
    Operand() = default;
    explicit Operand(const graph::Argument& argument);
    explicit Operand(PyObject* constant) : constant_(constant) {}
    /// Several positional arguments as one sequence: `x.view(2, 3)`.
    Operand(const graph::Argument* first, std::size_t count) : first_(first), count_(count) {}

    /// Not omitted.
    bool is_given() const {
        return constant_ != nullptr || tensor_ != nullptr || items_ != nullptr || first_ != nullptr ||
               number_ != nullptr;
    }
    bool is_none() const { return constant_ == Py_None; }
    /// Omitted, or `None`.
    bool is_absent() const { return !is_given() || is_none(); }

    const TensorMeta* tensor() const { return tensor_; }
    /// The same tensor with other metadata, as after a conversion before the operation.
    void replace_meta(const TensorMeta* meta) { tensor_ = meta; }
    const graph::Node* node() const { return node_; }
    /// Null for a number that changes between calls.
    PyObject* constant() const { return constant_; }

    std::optional<bool> boolean() const;
    std::optional<Dim> integer() const;  // an `int` but not a `bool`
    /// An integer, or `missing` if the argument is omitted; empty for anything else.
    std::optional<Dim> integer_or(Dim missing) const { return is_given() ? integer() : std::optional<Dim>(missing); }
    std::optional<bool> boolean_or(bool missing) const { return is_given() ? boolean() : std::optional<bool>(missing); }
    std::optional<double> real() const;  // int or float, not bool
    /// The dtype a Python number has before promotion: bool, int64, float64 or complex128.
    std::optional<Dtype> number_type() const;
    std::optional<std::string_view> string() const;
    std::optional<Dtype> dtype() const;
    std::optional<Device> device() const;  // also by its name
    std::optional<torch_room::MemoryFormat> memory_format() const;

    bool is_sequence() const;
    bool is_list() const;
    bool is_slice() const;
    /// The items of a tuple or list; start, stop and step of a slice.
    std::vector<Operand> items() const;
    /// A tuple or list of integers.
    std::optional<Dims> integers() const;
    /// A sequence of integers, or a single one.
    std::optional<Dims> integer_or_integers() const;

  private:
    PyObject* constant_ = nullptr;
    const Expression* number_ = nullptr;  // that changes between calls
    const TensorMeta* tensor_ = nullptr;
    const graph::Node* node_ = nullptr;
    const graph::Argument* items_ = nullptr;
    const graph::Argument* first_ = nullptr;
    std::size_t count_ = 0;
};

}  // namespace stator::shape

#include "shape/language/operand.h"

#include "base/text.h"
#include "number/expressions.h"

namespace stator::shape {

using graph::Argument;
using graph::Result;

Operand::Operand(const Argument& argument) {
    if (argument.kind == Argument::Kind::Constant) {
        constant_ = argument.constant;
    } else if (argument.kind == Argument::Kind::Node) {
        node_ = argument.node;
        const Result& result = argument.node->result;
        if (result.kind == Result::Kind::Tensor)
            tensor_ = result.tensor;
        else if (result.kind == Result::Kind::Constant && result.expression != nullptr)
            number_ = result.expression;
        else if (result.kind == Result::Kind::Constant)
            constant_ = result.constant;
        else if (result.kind == Result::Kind::None)
            constant_ = Py_None;
        else
            items_ = &argument;  // a container that no reader supports
    } else {
        items_ = &argument;
    }
}

std::optional<bool> Operand::boolean() const {
    if (constant_ == Py_True) return true;
    if (constant_ == Py_False) return false;
    return std::nullopt;
}

std::optional<Dim> Operand::integer() const {
    if (number_ != nullptr && !number_->is_float) return Dim::of(number_->table->resolved(number_));
    if (constant_ == nullptr || !PyLong_CheckExact(constant_)) return std::nullopt;
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(constant_, &overflow);
    if (overflow != 0 || !Dim::can_hold(value)) return std::nullopt;
    return Dim(value);
}

std::optional<double> Operand::real() const {
    if (constant_ == nullptr) return std::nullopt;
    if (PyFloat_CheckExact(constant_)) return PyFloat_AS_DOUBLE(constant_);
    if (auto value = integer()) return static_cast<double>(value->hint());
    return std::nullopt;
}

std::optional<Dtype> Operand::number_type() const {
    if (number_ != nullptr) return number_->is_float ? torch_room::dtype::kDouble : torch_room::dtype::kLong;
    if (constant_ == nullptr) return std::nullopt;
    if (PyBool_Check(constant_)) return torch_room::dtype::kBool;
    if (PyLong_CheckExact(constant_)) return integer() ? std::optional(torch_room::dtype::kLong) : std::nullopt;
    if (PyFloat_CheckExact(constant_)) return torch_room::dtype::kDouble;
    if (PyComplex_CheckExact(constant_)) return torch_room::dtype::kComplexDouble;
    return std::nullopt;
}

std::optional<std::string_view> Operand::string() const {
    if (constant_ == nullptr || !PyUnicode_CheckExact(constant_)) return std::nullopt;
    return utf8(constant_);
}

std::optional<Dtype> Operand::dtype() const {
    return constant_ == nullptr ? std::nullopt : torch_room::as_dtype(constant_);
}

std::optional<Device> Operand::device() const {
    if (constant_ == nullptr) return std::nullopt;
    auto name = string();
    return name ? torch_room::parse_device(*name) : torch_room::as_device(constant_);
}

std::optional<torch_room::MemoryFormat> Operand::memory_format() const {
    return constant_ == nullptr ? std::nullopt : torch_room::as_memory_format(constant_);
}

bool Operand::is_sequence() const {
    if (first_ != nullptr) return true;
    if (items_ != nullptr) return items_->kind == Argument::Kind::Tuple || items_->kind == Argument::Kind::List;
    return constant_ != nullptr &&
           (PyTuple_CheckExact(constant_) || PyList_CheckExact(constant_) || torch_room::is_size(constant_));
}

bool Operand::is_list() const {
    if (items_ != nullptr) return items_->kind == Argument::Kind::List;
    return constant_ != nullptr && PyList_Check(constant_);
}

bool Operand::is_slice() const {
    if (items_ != nullptr) return items_->kind == Argument::Kind::Slice;
    return constant_ != nullptr && PySlice_Check(constant_);
}

std::vector<Operand> Operand::items() const {
    std::vector<Operand> parts;
    if (first_ != nullptr) {
        for (std::size_t i = 0; i < count_; ++i) parts.emplace_back(first_[i]);
    } else if (items_ != nullptr) {
        if (items_->kind == Argument::Kind::Node) return parts;
        for (const Argument& item : items_->items->values) parts.emplace_back(item);
    } else if (is_slice()) {
        auto* slice = reinterpret_cast<PySliceObject*>(constant_);
        parts = {Operand(slice->start), Operand(slice->stop), Operand(slice->step)};
    } else if (is_sequence()) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(constant_); ++i)
            parts.emplace_back(PySequence_Fast_GET_ITEM(constant_, i));
    }
    return parts;
}

std::optional<Dims> Operand::integers() const {
    if (!is_sequence()) return std::nullopt;
    Dims values;
    for (const Operand& item : items()) {
        auto value = item.integer();
        if (!value) return std::nullopt;
        values.push_back(*value);
    }
    return values;
}

std::optional<Dims> Operand::integer_or_integers() const {
    if (auto value = integer()) return Dims{*value};
    return integers();
}

}  // namespace stator::shape

/// Tensor subclasses of the program: a plain tensor with a class and attributes. The `__torch_function__` of the class
/// implements operations on it (see torch_function.h). The graph has the plain tensor, and the plan restores the class
/// if the tensor leaves the trace.
///
/// A wrapper subclass (torch/wrappers.h) has a `__torch_dispatch__` besides, below what is traced: the graph has the
/// object itself, and its nodes call `__torch_dispatch__` when they run.
#pragma once

#include "value/kinds/object.h"

namespace stator {

struct TensorValue;

struct TensorObjectValue final : ObjectValue {
    static constexpr Kind kKind = Kind::TensorObject;
    explicit TensorObjectValue(PyTypeObject* type) : ObjectValue(kKind, type) {}

    /// The tensor in the graph; null for one from outside until it is realized, and for one that the program makes
    /// until it is used: see `tensor`.
    TensorValue* payload = nullptr;
    /// Of a wrapper subclass that the program makes (made_wrappers.h): a callable that makes one without attributes.
    PyObject* maker = nullptr;
    /// The size and the strides that it has then, where some of these change between calls: the maker takes them.
    std::vector<Value*> layout;
    /// The inner tensors of a result of a wrapper subclass that the program has read.
    std::vector<std::pair<PyObject*, Value*>> parts;

    bool is_wrapper() const;
    /// The program has made it, and not yet used it as a tensor.
    bool is_unfinished() const { return maker != nullptr && payload == nullptr; }
    /// The payload, which becomes a node if it is not there yet.
    TensorValue* tensor(Tracer& tracer);

    void realize(Tracer& tracer) override;
    Value* own_attribute(Tracer& tracer, Borrowed<> name) override;
    void set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    bool delete_own_attribute(Tracer& tracer, Borrowed<> name) override;
    bool truth(Tracer& tracer) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    Outcome assign_item(Tracer& tracer, Value* key, Value* value) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Value* in_place(Tracer& tracer, BinaryOperator op, Value* other) override;
    Value* unary(Tracer& tracer, UnaryOperator op) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;

  private:
    /// The payload. Breaks the graph if the class has an active `__torch_function__`.
    TensorValue* plain(Tracer& tracer);
};

/// A new result as the program sees it: as an object, if it is of a wrapper subclass.
Value* seen_by_program(Tracer& tracer, TensorValue* tensor);

}  // namespace stator

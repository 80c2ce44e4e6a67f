/// Tensors: a node of the graph and the metadata of its result.
#pragma once

#include <utility>
#include <vector>

#include "torch/meta.h"
#include "value/value.h"

namespace stator {

struct TensorValue final : Value {
    static constexpr Kind kKind = Kind::Tensor;
    TensorValue() : Value(kKind) {}

    graph::Node* node = nullptr;  // null for an input that was not used yet
    const torch_room::TensorMeta* meta = nullptr;
    PyObject* outside = nullptr;     // the real tensor, if it is an input
    TensorValue* view_of = nullptr;  // the tensor of which an operation made it a view
    bool is_detached = false;        // autograd does not know that it is a view
    /// A view that PyTorch does not allow to be written to while gradients are recorded: one of several views (of
    /// `unbind`, `split`, ...), or made without gradients.
    bool refuses_writes = false;
    bool is_of_object = false;      // the tensor of a TensorObjectValue that came from outside
    bool is_row = false;            // of iterating over a tensor
    Value* set_gradient = nullptr;  // the value that the program has assigned to `grad`
    bool has_new_data = false;      // the program has assigned to `data`
    /// What the program has set on a result, by name; null for what it has deleted. A tensor from outside has a dict.
    std::vector<std::pair<PyObject*, Value*>> own_attributes;
    bool is_gradient = false;  // the gradient in a backward function or a hook: its strides are not known

    void realize(Tracer& tracer) override;
    PyTypeObject* type() const override;
    PyObject* object() const override { return outside; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    void set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    bool delete_own_attribute(Tracer& tracer, Borrowed<> name) override;
    bool set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    Outcome call(Tracer& tracer, const Arguments& arguments) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    void set_item(Tracer& tracer, Value* key, Value* value) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Outcome contains(Tracer& tracer, Value* item) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Value* in_place(Tracer& tracer, BinaryOperator op, Value* other) override;
    Value* unary(Tracer& tracer, UnaryOperator op) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// `x.data` as torch._dynamo records it; null if this PyTorch has no such function.
PyObject* data_function();
/// Guards the autograd state (a leaf, a view, with or without a history) of a tensor from outside.
void guard_autograd_state(Tracer& tracer, TensorValue* tensor);

/// The result of a node that entered a mode. Leaving the mode takes it; the program never sees it.
struct NodeValue final : Value {
    explicit NodeValue(graph::Node* node) : Value(Kind::Context), node(node) {}
    graph::Node* node;
    PyTypeObject* type() const override { return Py_TYPE(Py_None); }
    graph::Argument as_argument(Tracer&) override { return graph::Argument::of(node); }
    std::string print() const override { return "node"; }
};

}  // namespace stator

/// Nested tensors of `torch.jagged` layout (torch/jagged.h): wrappers, of which one size is a nested int.
#pragma once

#include <utility>
#include <vector>

#include "number/dim.h"
#include "torch/meta.h"
#include "value/builtins/registry.h"
#include "value/tracer.h"

namespace stator {

struct TensorObjectValue;
struct TensorValue;

/// The ragged size of a tensor, as the program reads it: it can be compared, returned, and be an argument of an
/// operation.
struct NestedIntValue final : Value {
    NestedIntValue(TensorValue* of, Value* dimension, Dim size)
        : Value(Kind::Context), of(of), dimension(dimension), size(size) {}

    TensorValue* of;
    Value* dimension;
    Dim size;
    /// The call of `size` in the graph; null until an operation takes it.
    graph::Node* node = nullptr;

    PyTypeObject* type() const override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    bool truth(Tracer& tracer) override;
    Py_hash_t hash(Tracer& tracer) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// Null for anything else.
NestedIntValue* as_nested_int(Value* value);
/// The nested ints among the arguments of an operation, and in tuples and lists of these.
std::vector<NestedIntValue*> nested_ints(Tracer& tracer, const Arguments& arguments);

/// A size of a tensor as a value: an int, or a nested int.
Value* size_of(Tracer& tracer, TensorValue* tensor, std::size_t dimension);
/// All of them, as a tuple of the given class.
Value* sizes_of(Tracer& tracer, TensorValue* tensor, PyTypeObject* type);
/// How many elements it has: those of its values.
Dim count_of_jagged(Tracer& tracer, const torch_room::TensorMeta& meta);

/// The sizes of a tensor from outside, by those of its inner tensors. Guards which tensors share their offsets.
Dims sizes_of_jagged(Tracer& tracer, TensorObjectValue* wrapper, const torch_room::TensorMeta& meta,
                     const std::vector<std::pair<Ref<>, torch_room::TensorMeta>>& parts);
/// An inner tensor of one from outside that the class keeps in a dict, such as the largest length. Null if it is not
/// there.
Value* kept_part(Tracer& tracer, TensorObjectValue* wrapper, Borrowed<> name);
/// An attribute of a result that other code than PyTorch's sees: its offsets, which it shares with other tensors, and
/// its sizes. Null for any other attribute.
Value* own_attribute_of_jagged(Tracer& tracer, TensorObjectValue* wrapper, Borrowed<> name);

/// The tensors among the arguments of an operation of which it makes jagged tensors, and the ragged size of these.
std::vector<std::pair<const graph::Node*, Dim>> ragged_sources(Tracer& tracer, Borrowed<> target,
                                                               const Arguments& arguments);

void register_jagged_tensors(Handlers& handlers);

}  // namespace stator

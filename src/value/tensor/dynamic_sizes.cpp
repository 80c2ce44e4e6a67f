#include "value/tensor/dynamic_sizes.h"

#include "base/python_error.h"
#include "shape/derived_strides.h"
#include "torch/known.h"
#include "torch/names.h"
#include "value/kinds/constant.h"
#include "value/kinds/sequence.h"

namespace stator {

namespace {

using Op = Expression::Op;
using torch_room::DynamicSizes;
using torch_room::TensorMeta;

/// Whether a tensor is part of a module: its sizes are those of the model, as torch.compile has it
/// (`force_parameter_static_shapes`, `force_nn_module_property_static_shapes`).
bool belongs_to_module(const Source* source) {
    const auto& known = torch_room::known();
    for (source = source->parent; source != nullptr; source = source->parent)
        if (source->object != nullptr && PyObject_TypeCheck(source->object, known.module_class)) return true;
    return false;
}

bool may_be_dynamic(const TensorValue* tensor, const TensorMeta& meta) {
    return tensor->source->access != Access::Pinned && !tensor->is_of_object && meta.layout == torch_room::Layout{} &&
           meta.dispatch_keys == 0 && meta.dimensions() <= DynamicSizes::kMostDimensions &&
           meta.python_class == torch_room::tensor_class() && !belongs_to_module(tensor->source);
}

Source* size_source(Tracer& tracer, Source* tensor, std::size_t dimension, std::int64_t size) {
    Ref<> object = checked(PyLong_FromLongLong(size));
    PyObject* kept = tracer.keep(std::move(object));
    return tracer.provenance().child(tensor, Access::Size, nullptr, static_cast<int>(dimension), kept);
}

/// Equal sizes are taken to stay equal: they share the symbol of the first.
const Expression* symbol_of(Tracer& tracer, Source* source, std::int64_t size) {
    constexpr Range kSizes{2, Range::kNoMost};
    Expressions& numbers = tracer.numbers();
    const Expression* symbol = numbers.variable(source, Number::of_int(size), kSizes);
    for (const Expression* earlier : numbers.variables()) {
        if (earlier == symbol || earlier->is_float || earlier->source->access != Access::Size) continue;
        if (earlier->hint.integer() != size) continue;
        numbers.decide(Op::Equal, symbol, earlier);
        break;
    }
    return numbers.resolved(symbol);
}

}  // namespace

const DynamicSizes* make_sizes_dynamic(Tracer& tracer, const TensorValue* tensor, TensorMeta& meta) {
    if (!tracer.has_dynamic_sizes() || !may_be_dynamic(tensor, meta)) return nullptr;
    DynamicSizes dynamic;
    for (std::size_t i = 0; i < meta.dimensions(); ++i) {
        const std::int64_t size = meta.sizes[i].value();
        if (size < 2) continue;
        Source* source = size_source(tracer, tensor->source, i, size);
        if (!tracer.is_dynamic(*source)) continue;
        dynamic.sizes |= std::uint32_t{1} << i;
        meta.sizes[i] = Dim::of(symbol_of(tracer, source, size));
    }
    if (dynamic.sizes == 0) return nullptr;
    shape::derive_strides(dynamic, meta);
    return tracer.arena().make<DynamicSizes>(std::move(dynamic));
}

Value* size_value(Tracer& tracer, Dim size) {
    if (size.is_constant()) return tracer.integer(size.value());
    const Expression* expression = tracer.numbers().resolved(size.expression());
    auto* value = static_cast<ConstantValue*>(tracer.fresh(expression->hint.object()));
    if (expression->op == Op::Constant) return value;
    value->expression = expression;
    value->realized = false;
    return value;
}

Value* size_values(Tracer& tracer, const Dims& sizes, PyTypeObject* type) {
    std::vector<Value*> items;
    for (Dim size : sizes) items.push_back(size_value(tracer, size));
    return make_tuple(tracer, std::move(items), type);
}

}  // namespace stator

#include "value/tensor/dynamic_sizes.h"

#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "shape/derived_strides.h"
#include "torch/known.h"
#include "torch/names.h"
#include "value/kinds/changing_number.h"
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

/// What `torch._dynamo.mark_dynamic` and its relatives have said of a tensor: sets of dimensions among its attributes.
class Marks {
  public:
    explicit Marks(PyObject* tensor) : attributes_(cpython::instance_dict_if_made(tensor)) {}

    bool are_there() const { return attributes_ != nullptr && PyDict_GET_SIZE(attributes_) > 0; }
    bool is_dynamic(std::size_t dimension) const { return has(interned("_dynamo_dynamic_indices"), dimension); }
    bool may_be_dynamic(std::size_t dimension) const {
        return has(interned("_dynamo_weak_dynamic_indices"), dimension);
    }
    bool is_unbacked(std::size_t dimension) const {
        return has(interned("_dynamo_unbacked_indices"), dimension) ||
               has(interned("_dynamo_strict_unbacked_indices"), dimension);
    }
    bool is_static(std::size_t dimension) const { return has(interned("_dynamo_static_indices"), dimension); }
    /// The bounds that `mark_dynamic` was given.
    Range range(std::size_t dimension) const {
        Range range;
        PyObject* ranges = find(interned("_dynamo_dynamic_range"));
        if (ranges == nullptr) return range;
        Ref<> all = checked(PySequence_List(ranges));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all.get()); ++i) {
            PyObject* one = PyList_GET_ITEM(all.get(), i);
            if (number(one, "dim") != static_cast<std::int64_t>(dimension)) continue;
            range.least = number(one, "min").value_or(Range::kNoLeast);
            range.most = number(one, "max").value_or(Range::kNoMost);
        }
        return range;
    }

  private:
    PyObject* find(PyObject* name) const { return are_there() ? PyDict_GetItemWithError(attributes_, name) : nullptr; }
    bool has(PyObject* name, std::size_t dimension) const {
        PyObject* dimensions = find(name);
        if (dimensions == nullptr || !PyAnySet_Check(dimensions)) return false;
        return PySet_Contains(dimensions, checked(PyLong_FromSize_t(dimension)).get()) == 1;
    }
    static std::optional<std::int64_t> number(PyObject* object, const char* name) {
        Ref<> value = checked(PyObject_GetAttrString(object, name));
        auto found = Number::of(value.get());
        return found && !found->is_float() ? std::optional(found->integer()) : std::nullopt;
    }

    PyObject* attributes_;  // of the tensor; null if there are none
};

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
    if (tracer.dynamic_shapes() == Tracer::DynamicShapes::Never) return nullptr;
    const Marks marks(tensor->outside);
    if ((!tracer.has_dynamic_sizes() && !marks.are_there()) || !may_be_dynamic(tensor, meta)) return nullptr;
    DynamicSizes dynamic;
    for (std::size_t i = 0; i < meta.dimensions(); ++i) {
        const std::int64_t size = meta.sizes[i].value();
        if (marks.is_unbacked(i)) {
            dynamic.sizes |= std::uint32_t{1} << i;
            dynamic.unbacked |= std::uint32_t{1} << i;
            meta.sizes[i] = Dim::of(tracer.numbers().unbacked(/*is_float=*/false, {0, Range::kNoMost}, size));
            continue;
        }
        if (size < 2 || marks.is_static(i)) continue;
        Source* source = size_source(tracer, tensor->source, i, size);
        const bool has_to_be = marks.is_dynamic(i);
        if (!has_to_be && !marks.may_be_dynamic(i) && !tracer.is_dynamic(*source)) continue;
        dynamic.sizes |= std::uint32_t{1} << i;
        const Expression* symbol = symbol_of(tracer, source, size);
        meta.sizes[i] = Dim::of(symbol);
        if (has_to_be) tracer.require_dynamic(symbol, marks.range(i));
    }
    if (dynamic.sizes == 0) return nullptr;
    shape::derive_strides(dynamic, meta);
    return tracer.arena().make<DynamicSizes>(std::move(dynamic));
}

Value* size_value(Tracer& tracer, Dim size) {
    if (size.is_constant()) return tracer.integer(size.value());
    return symbolic::value_of(tracer, size.expression());
}

Value* size_values(Tracer& tracer, const Dims& sizes, PyTypeObject* type) {
    std::vector<Value*> items;
    for (Dim size : sizes) items.push_back(size_value(tracer, size));
    return make_tuple(tracer, std::move(items), type);
}

}  // namespace stator

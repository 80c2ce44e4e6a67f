#include "value/tensor/dynamic_sizes.h"

#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "shape/derived_strides.h"
#include "shape/symbolic_fallback.h"
#include "torch/known.h"
#include "torch/names.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/constant.h"
#include "value/kinds/sequence.h"
#include "value/tensor/marks.h"

namespace stator {

namespace {

using Op = Expression::Op;
using torch_room::DynamicSizes;
using torch_room::TensorMeta;

/// Whether it is one of the class `Parameter`, or a wrapper that says so.
bool is_parameter(PyObject* tensor) {
    if (Py_TYPE(tensor) == torch_room::tensor_class()) return false;
    if (!torch_room::is_wrapper_class(Py_TYPE(tensor))) return true;
    PyObject* attributes = cpython::instance_dict_if_made(tensor);
    return attributes != nullptr && PyDict_GetItemWithError(attributes, interned("_is_param")) == Py_True;
}

/// Where the wrapper is that holds a tensor as an attribute; null if none does.
const Source* wrapper_around(const Source& source) {
    const Source* holder = source.parent;
    if (holder != nullptr && holder->access == Access::InstanceDict) holder = holder->parent;
    PyObject* object = holder == nullptr ? nullptr : holder->object;
    const bool is_wrapper = object != nullptr && torch_room::is_tensor(object) &&
                            !torch_room::is_plain_tensor(object) && torch_room::is_wrapper_class(Py_TYPE(object));
    return is_wrapper ? holder : nullptr;
}

/// Whether the sizes of a tensor are those of the model, which do not change.
bool has_static_sizes(const DynamicPolicy& policy, const Source& source, PyObject* tensor) {
    if (policy.has_static_parameters && (is_parameter(tensor) || is_parameter_or_buffer(source))) return true;
    if (const Source* wrapper = wrapper_around(source)) return has_static_sizes(policy, *wrapper, wrapper->object);
    if (!policy.has_static_module_properties) return false;
    PyObject* module = module_above(source);
    return module != nullptr && is_static_module(module);
}

bool may_be_dynamic(const DynamicPolicy& policy, const TensorValue* tensor, const TensorMeta& meta) {
    const bool is_wrapper = meta.prototype != nullptr;
    const std::uint64_t understood = is_wrapper ? torch_room::trait::kPythonDispatch : torch_room::trait::kInference;
    if (tensor->source->access == Access::Pinned || (tensor->is_of_object && !is_wrapper) ||
        meta.layout != torch_room::Layout{} || (meta.dispatch_keys & ~understood) != 0 ||
        meta.dimensions() > DynamicSizes::kMostDimensions)
        return false;
    return policy.names(*tensor->source) || !has_static_sizes(policy, *tensor->source, tensor->outside);
}

/// A number of the tensor's layout as a number from outside.
Source* layout_source(Tracer& tracer, Source* tensor, Access access, std::size_t dimension, std::int64_t number) {
    PyObject* kept = tracer.keep(checked(PyLong_FromLongLong(number)));
    return tracer.provenance().child(tensor, access, nullptr, static_cast<int>(dimension), kept);
}

/// 0 and 1 are always constants.
constexpr Range kDynamic{2, Range::kNoMost};
constexpr Range kUnbacked{0, Range::kNoMost};

/// With `dynamic=True`, equal sizes are taken to stay equal: they share the symbol of the first.
void share_symbol(Tracer& tracer, const Expression* symbol) {
    Expressions& numbers = tracer.numbers();
    for (const Expression* earlier : numbers.variables()) {
        if (earlier == symbol || earlier->is_float || earlier->source->access != Access::Size) continue;
        if (earlier->hint != symbol->hint || tracer.origin_of(earlier) != SymbolOrigin::Default) continue;
        numbers.decide(Op::Equal, symbol, earlier);
        return;
    }
}

/// Why the size of a dimension is a symbol; nothing if it is a constant.
std::optional<SymbolOrigin> origin_of_size(const Tracer& tracer, const TensorValue* tensor, const Marks& marks,
                                           std::size_t dimension, const Source& size, std::int64_t value) {
    const DynamicPolicy& policy = tracer.dynamic();
    if (marks.is_strictly_unbacked(dimension)) return SymbolOrigin::Unbacked;
    if (marks.is_dynamic(dimension)) return SymbolOrigin::Marked;
    // The backend has failed on a symbol for it.
    if (tracer.knowledge().backend_constants.contains(path(size))) return std::nullopt;
    if (marks.may_be_dynamic(dimension)) return SymbolOrigin::MaybeMarked;
    if (marks.is_static(dimension)) return std::nullopt;
    if (tracer.has_changed(size)) return SymbolOrigin::Changed;
    if (policy.names(*tensor->source, static_cast<int>(dimension))) return SymbolOrigin::Named;
    if (policy.has_value(value)) return SymbolOrigin::Listed;
    if (!policy.is_static_by_default && !has_static_sizes(policy, *tensor->source, tensor->outside))
        return SymbolOrigin::Default;
    return std::nullopt;
}

/// `specialize_on`: calls for which one of the criteria holds have a graph of their own. The criterion is computed with
/// a symbol, and what it compares becomes relations.
void decide_criteria(Tracer& tracer, const Marks& marks, std::size_t dimension, const Expression* symbol) {
    Ref<> criteria = marks.criteria(dimension);
    for (Py_ssize_t i = 0; criteria && i < PyList_GET_SIZE(criteria.get()); ++i) {
        try {
            shape::decide(tracer.numbers(), symbol, PyList_GET_ITEM(criteria.get(), i));
        } catch (const PythonError&) {
            PyErr_Clear();
            tracer.note_broken_mark("a function of specialize_on raises an exception for " + path(*symbol->source));
        }
    }
}

void make_size_dynamic(Tracer& tracer, const TensorValue* tensor, const Marks& marks, std::size_t dimension,
                       Dim& size) {
    const std::int64_t value = size.value();
    Source* source = layout_source(tracer, tensor->source, Access::Size, dimension, value);
    auto origin = origin_of_size(tracer, tensor, marks, dimension, *source, value);
    if (!origin) return;
    const Expression* symbol = tracer.numbers().variable(source, Number::of_int(value), kDynamic);
    tracer.set_origin(symbol, *origin);
    tracer.mark_of(symbol).hint_override = marks.hint_override(dimension);
    if (*origin == SymbolOrigin::Default && tracer.dynamic().shares_symbols) share_symbol(tracer, symbol);
    decide_criteria(tracer, marks, dimension, symbol);
    const bool is_specialized = tracer.numbers().resolved(symbol)->op == Op::Constant;
    if (marks.is_dynamic(dimension) && !tracer.dynamic().may_specialize_marked_sizes && !is_specialized)
        tracer.require_dynamic(symbol, marks.range(dimension));
    size = Dim::of(tracer.numbers().resolved(symbol));
}

/// An earlier size with the same `shape_id`, which this one has to be equal to; null if there is none.
const UnbackedSize* size_of_same_shape(Tracer& tracer, PyObject* shape_id) {
    if (shape_id == nullptr) return nullptr;
    for (const UnbackedSize& earlier : tracer.unbacked_sizes())
        if (earlier.shape_id && PyObject_RichCompareBool(earlier.shape_id.get(), shape_id, Py_EQ) == 1) return &earlier;
    PyErr_Clear();
    return nullptr;
}

/// The same size as a number with a value, for guards: an unbacked number can't be part of one.
const Expression* guarded_size(Tracer& tracer, Source* source, std::int64_t size) {
    const Expression* symbol = tracer.numbers().variable(source, Number::of_int(size), kUnbacked);
    tracer.set_origin(symbol, SymbolOrigin::Unbacked);
    return symbol;
}

void make_size_unbacked(Tracer& tracer, const TensorValue* tensor, const Marks& marks, std::size_t dimension,
                        Dim& size) {
    const std::int64_t value = size.value();
    Source* source = layout_source(tracer, tensor->source, Access::Size, dimension, value);
    const Range bounds = marks.unbacked_range(dimension);
    if (bounds.least != Range::kNoLeast || bounds.most != Range::kNoMost)
        tracer.require_dynamic(guarded_size(tracer, source, value), bounds);
    Expressions& numbers = tracer.numbers();
    UnbackedSize unbacked{nullptr, source, value, Ref<>::share(marks.shape_id(dimension))};
    if (const UnbackedSize* earlier = size_of_same_shape(tracer, unbacked.shape_id.get())) {
        if (earlier->size != value)
            tracer.note_broken_mark(path(*source) + " and " + path(*earlier->source) +
                                    " are marked with the same shape_id, but are " + std::to_string(value) + " and " +
                                    std::to_string(earlier->size));
        numbers.decide(Op::Equal, guarded_size(tracer, source, value),
                       guarded_size(tracer, earlier->source, earlier->size));
        unbacked.number = earlier->number;
    } else {
        const Range range{std::max<std::int64_t>(bounds.least, 0), bounds.most};
        unbacked.number = numbers.unbacked(/*is_float=*/false, range, value);
    }
    tracer.mark_of(unbacked.number).hint_override = marks.hint_override(dimension);
    size = Dim::of(unbacked.number);
    tracer.add_unbacked_size(std::move(unbacked));
}

/// A stride that changes although the sizes do not explain it.
void make_stride_dynamic(Tracer& tracer, const TensorValue* tensor, std::size_t dimension, Dim& stride) {
    const std::int64_t value = stride.value();
    Source* source = layout_source(tracer, tensor->source, Access::Stride, dimension, value);
    if (!tracer.has_changed(*source)) return;
    const Expression* symbol = tracer.numbers().variable(source, Number::of_int(value), kDynamic);
    tracer.set_origin(symbol, SymbolOrigin::Changed);
    stride = Dim::of(symbol);
}

}  // namespace

const DynamicSizes* make_sizes_dynamic(Tracer& tracer, const TensorValue* tensor, TensorMeta& meta) {
    const DynamicPolicy& policy = tracer.dynamic();
    const Marks marks(tensor->outside);
    const bool has_changes = policy.is_automatic && !tracer.knowledge().changing_numbers.empty();
    if ((!has_changes && !policy.may_be_dynamic_at_first() && !marks.are_there()) ||
        !may_be_dynamic(policy, tensor, meta))
        return nullptr;
    const bool may_be_unbacked = meta.prototype == nullptr && wrapper_around(*tensor->source) == nullptr;
    DynamicSizes dynamic;
    for (std::size_t i = 0; i < meta.dimensions(); ++i) {
        // Not if a symbol has to tell whether it was specialized (there is none for 0 and 1), or what `specialize_on`
        // compares becomes guards, which can't be on unbacked numbers.
        const bool is_checked = marks.is_strictly_unbacked(i) && meta.sizes[i] >= 2;
        const bool is_named = policy.names_unbacked(*tensor->source, static_cast<int>(i));
        // (Operations on wrappers of such sizes have no answer.)
        const bool is_unbacked = (marks.is_unbacked(i) || is_named) && may_be_unbacked;
        if (is_unbacked && !is_checked && !marks.criteria(i)) {
            dynamic.unbacked |= std::uint32_t{1} << i;
            make_size_unbacked(tracer, tensor, marks, i, meta.sizes[i]);
        }
        if (meta.sizes[i].is_constant() && meta.sizes[i] >= 2)
            make_size_dynamic(tracer, tensor, marks, i, meta.sizes[i]);
        if (!meta.sizes[i].is_constant()) dynamic.sizes |= std::uint32_t{1} << i;
        if (has_changes && meta.strides[i] >= 2) make_stride_dynamic(tracer, tensor, i, meta.strides[i]);
        if (!meta.strides[i].is_constant()) dynamic.strides |= std::uint32_t{1} << i;
    }
    if (!dynamic.any()) return nullptr;
    shape::derive_strides(dynamic, meta);
    return tracer.arena().make<DynamicSizes>(std::move(dynamic));
}

Value* changing_offset(Tracer& tracer, const TensorValue* tensor) {
    const std::int64_t offset = torch_room::storage_offset(tensor->outside);
    Source* source = layout_source(tracer, tensor->source, Access::Offset, 0, offset);
    if (!tracer.has_changed(*source)) return nullptr;
    constexpr Range kOffsets{0, Range::kNoMost};
    const Expression* symbol = tracer.numbers().variable(source, Number::of_int(offset), kOffsets);
    tracer.set_origin(symbol, SymbolOrigin::Changed);
    return size_value(tracer, Dim::of(symbol));
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

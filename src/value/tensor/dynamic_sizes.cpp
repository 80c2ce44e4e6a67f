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

/// Whether the sizes of a tensor are those of the model, which do not change.
bool has_static_sizes(const DynamicPolicy& policy, const TensorValue* tensor) {
    const Source& source = *tensor->source;
    if (policy.has_static_parameters &&
        (Py_TYPE(tensor->outside) != torch_room::tensor_class() || is_parameter_or_buffer(source)))
        return true;
    if (!policy.has_static_module_properties) return false;
    PyObject* module = module_above(source);
    return module != nullptr && is_static_module(module);
}

bool may_be_dynamic(const DynamicPolicy& policy, const TensorValue* tensor, const TensorMeta& meta) {
    if (tensor->source->access == Access::Pinned || tensor->is_of_object || meta.layout != torch_room::Layout{} ||
        meta.dispatch_keys != 0 || meta.dimensions() > DynamicSizes::kMostDimensions)
        return false;
    return policy.names(*tensor->source) || !has_static_sizes(policy, tensor);
}

/// The marks of `torch._dynamo.mark_dynamic` and its relatives: sets of dimensions, among the attributes of a tensor.
class Marks {
  public:
    explicit Marks(PyObject* tensor) : attributes_(cpython::instance_dict_if_made(tensor)) {}

    bool are_there() const { return attributes_ != nullptr && PyDict_GET_SIZE(attributes_) > 0; }
    /// Specializing it is an error: `mark_dynamic`, and `mark_unbacked(strict=True)`.
    bool is_dynamic(std::size_t dimension) const {
        return has(interned("_dynamo_dynamic_indices"), dimension) || is_strictly_unbacked(dimension);
    }
    bool is_strictly_unbacked(std::size_t dimension) const {
        return has(interned("_dynamo_strict_unbacked_indices"), dimension);
    }
    /// Unbacked sizes too: to compilers they are symbols like others.
    bool may_be_dynamic(std::size_t dimension) const {
        return has(interned("_dynamo_weak_dynamic_indices"), dimension) ||
               has(interned("_dynamo_propagated_dynamic_indices"), dimension) ||
               has(interned("_dynamo_unbacked_indices"), dimension);
    }
    bool is_unbacked(std::size_t dimension) const {
        return has(interned("_dynamo_unbacked_indices"), dimension) || is_strictly_unbacked(dimension);
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

/// A number of the tensor's layout as a number from outside.
Source* layout_source(Tracer& tracer, Source* tensor, Access access, std::size_t dimension, std::int64_t number) {
    PyObject* kept = tracer.keep(checked(PyLong_FromLongLong(number)));
    return tracer.provenance().child(tensor, access, nullptr, static_cast<int>(dimension), kept);
}

/// 0 and 1 are always constants.
constexpr Range kDynamic{2, Range::kNoMost};

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
    if (marks.is_dynamic(dimension)) return SymbolOrigin::Marked;
    // The backend has failed on a symbol for it.
    if (tracer.knowledge().backend_constants.contains(path(size))) return std::nullopt;
    if (marks.may_be_dynamic(dimension)) return SymbolOrigin::MaybeMarked;
    if (marks.is_static(dimension)) return std::nullopt;
    if (tracer.has_changed(size)) return SymbolOrigin::Changed;
    if (policy.names(*tensor->source, static_cast<int>(dimension))) return SymbolOrigin::Named;
    if (policy.has_value(value)) return SymbolOrigin::Listed;
    if (!policy.is_static_by_default && !has_static_sizes(policy, tensor)) return SymbolOrigin::Default;
    return std::nullopt;
}

void make_size_dynamic(Tracer& tracer, const TensorValue* tensor, const Marks& marks, std::size_t dimension,
                       Dim& size) {
    const std::int64_t value = size.value();
    Source* source = layout_source(tracer, tensor->source, Access::Size, dimension, value);
    auto origin = origin_of_size(tracer, tensor, marks, dimension, *source, value);
    if (!origin) return;
    const Expression* symbol = tracer.numbers().variable(source, Number::of_int(value), kDynamic);
    tracer.set_origin(symbol, *origin);
    if (*origin == SymbolOrigin::Default && tracer.dynamic().shares_symbols) share_symbol(tracer, symbol);
    if (*origin == SymbolOrigin::Marked && !tracer.dynamic().may_specialize_marked_sizes)
        tracer.require_dynamic(symbol, marks.range(dimension));
    size = Dim::of(tracer.numbers().resolved(symbol));
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
    DynamicSizes dynamic;
    for (std::size_t i = 0; i < meta.dimensions(); ++i) {
        // A symbol tells whether it was specialized. There is none for 0 and 1.
        const bool is_checked = marks.is_strictly_unbacked(i) && meta.sizes[i] >= 2;
        if (marks.is_unbacked(i) && !is_checked && tracer.run_by() == Tracer::RunBy::Stator) {
            dynamic.unbacked |= std::uint32_t{1} << i;
            const std::int64_t size = meta.sizes[i].value();
            meta.sizes[i] = Dim::of(tracer.numbers().unbacked(/*is_float=*/false, {0, Range::kNoMost}, size));
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

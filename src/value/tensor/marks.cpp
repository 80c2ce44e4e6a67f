#include "value/tensor/marks.h"

#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "number/number.h"

namespace stator {

namespace {

std::optional<std::int64_t> whole_number(PyObject* object) {
    auto number = Number::of(object);
    return number && !number->is_float() ? std::optional(number->integer()) : std::nullopt;
}

std::optional<std::int64_t> whole_number(PyObject* object, const char* attribute) {
    return whole_number(checked(PyObject_GetAttrString(object, attribute)).get());
}

}  // namespace

Marks::Marks(PyObject* tensor) : attributes_(cpython::instance_dict_if_made(tensor)) {}

bool Marks::is_dynamic(std::size_t dimension) const {
    return has("_dynamo_dynamic_indices", dimension) || is_strictly_unbacked(dimension);
}

bool Marks::may_be_dynamic(std::size_t dimension) const {
    return has("_dynamo_weak_dynamic_indices", dimension) || has("_dynamo_propagated_dynamic_indices", dimension) ||
           has("_dynamo_unbacked_indices", dimension);
}

bool Marks::is_unbacked(std::size_t dimension) const {
    return has("_dynamo_unbacked_indices", dimension) || is_strictly_unbacked(dimension);
}

bool Marks::is_strictly_unbacked(std::size_t dimension) const {
    return has("_dynamo_strict_unbacked_indices", dimension);
}

bool Marks::is_static(std::size_t dimension) const {
    return has("_dynamo_static_indices", dimension);
}

Range Marks::range(std::size_t dimension) const {
    Range range;
    PyObject* ranges = find(interned("_dynamo_dynamic_range"));
    if (ranges == nullptr) return range;
    Ref<> all = checked(PySequence_List(ranges));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all.get()); ++i) {
        PyObject* one = PyList_GET_ITEM(all.get(), i);
        if (whole_number(one, "dim") != static_cast<std::int64_t>(dimension)) continue;
        range.least = whole_number(one, "min").value_or(Range::kNoLeast);
        range.most = whole_number(one, "max").value_or(Range::kNoMost);
    }
    return range;
}

Range Marks::unbacked_range(std::size_t dimension) const {
    Range range;
    PyObject* bounds = item("_dynamo_unbacked_bounds", dimension);
    if (bounds == nullptr || !PyTuple_Check(bounds) || PyTuple_GET_SIZE(bounds) != 2) return range;
    range.least = whole_number(PyTuple_GET_ITEM(bounds, 0)).value_or(Range::kNoLeast);
    range.most = whole_number(PyTuple_GET_ITEM(bounds, 1)).value_or(Range::kNoMost);
    return range;
}

std::optional<std::int64_t> Marks::hint_override(std::size_t dimension) const {
    PyObject* hint = item("_dynamo_hint_overrides", dimension);
    return hint == nullptr ? std::nullopt : whole_number(hint);
}

PyObject* Marks::shape_id(std::size_t dimension) const {
    return item("_dynamo_shape_ids", dimension);
}

Ref<> Marks::criteria(std::size_t dimension) const {
    PyObject* functions = item("_specialize_on", dimension);
    if (functions == nullptr) return {};
    Ref<> list = checked(PySequence_List(functions));
    return PyList_GET_SIZE(list.get()) == 0 ? Ref<>() : std::move(list);
}

PyObject* Marks::find(PyObject* name) const {
    return are_there() ? PyDict_GetItemWithError(attributes_, name) : nullptr;
}

bool Marks::has(const char* name, std::size_t dimension) const {
    PyObject* dimensions = find(interned(name));
    if (dimensions == nullptr || !PyAnySet_Check(dimensions)) return false;
    return PySet_Contains(dimensions, checked(PyLong_FromSize_t(dimension)).get()) == 1;
}

PyObject* Marks::item(const char* name, std::size_t dimension) const {
    PyObject* by_dimension = find(interned(name));
    if (by_dimension == nullptr || !PyDict_Check(by_dimension)) return nullptr;
    return PyDict_GetItemWithError(by_dimension, checked(PyLong_FromSize_t(dimension)).get());
}

}  // namespace stator

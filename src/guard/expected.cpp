/// The values that a guard program expects at single sources, and those that a frame has there: finds the matching
/// program among many without checking each.
#include <cstring>

#include "cpython/objects.h"
#include "guard/state.h"
#include "torch/sizes.h"

namespace stator {

namespace {

std::uint64_t mixed(const void* type, std::uint64_t value) {
    return (reinterpret_cast<std::uint64_t>(type) ^ value) * 0x9E3779B97F4A7C15ull;
}

/// A key that is equal for constants that are equal by `same_constant`; nothing for classes that it does not know.
std::optional<std::uint64_t> constant_key(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (object == Py_None || object == Py_True || object == Py_False) return mixed(type, object == Py_True);
    if (type == &PyFloat_Type) {
        double value = PyFloat_AS_DOUBLE(object);
        std::uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        return mixed(type, bits);
    }
    if (type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBytes_Type)
        return mixed(type, static_cast<std::uint64_t>(PyObject_Hash(object)));
    return std::nullopt;
}

std::optional<std::uint64_t> key_of(GuardKind kind, PyObject* object) {
    switch (kind) {
        case GuardKind::Type:
            return reinterpret_cast<std::uint64_t>(Py_TYPE(object));
        case GuardKind::Identity:
            return reinterpret_cast<std::uint64_t>(object);
        case GuardKind::Constant: {
            auto key = constant_key(object);
            // Expected constants have a key, so an object of another class can't match them.
            return key ? key : 0;
        }
        case GuardKind::Tensor:
            return torch_room::sizes_key(object);
        default:
            return std::nullopt;
    }
}

PyObject* tuple_item(PyObject* tuple, std::int32_t number) {
    if (tuple == nullptr || !PyTuple_Check(tuple) || number >= PyTuple_GET_SIZE(tuple)) return nullptr;
    return PyTuple_GET_ITEM(tuple, number);
}

}  // namespace

/// The object of a source, read as a check reads it, except for accesses that may run code or create objects; null if
/// it can't be read.
PyObject* GuardProgram::State::read(std::int32_t number, PyObject* const* slots, PyObject* function) const {
    const Place& place = places[number];
    if (place.access == Access::Slot) return slots[place.number];
    if (place.access == Access::Function) return function;
    if (place.parent < 0) return nullptr;
    bool is_attribute = place.access == Access::DictItem && places[place.parent].access == Access::InstanceDict;
    PyObject* parent = read(is_attribute ? places[place.parent].parent : place.parent, slots, function);
    if (parent == nullptr) return nullptr;
    PyFunctionObject* as_function = PyFunction_Check(parent) ? reinterpret_cast<PyFunctionObject*>(parent) : nullptr;
    switch (place.access) {
        case Access::Globals:
            return as_function != nullptr ? cpython::globals_of(as_function) : nullptr;
        case Access::ClosureCell:
            return as_function != nullptr ? tuple_item(cpython::closure_of(as_function), place.number) : nullptr;
        case Access::CellContents:
            return PyCell_Check(parent) ? PyCell_GET(parent) : nullptr;
        case Access::Item:
            if (PyTuple_Check(parent)) return tuple_item(parent, place.number);
            if (!PyList_Check(parent) || place.number >= PyList_GET_SIZE(parent)) return nullptr;
            return PyList_GET_ITEM(parent, place.number);
        case Access::DictItem: {
            if (!PyUnicode_CheckExact(place.key)) return nullptr;
            PyObject* dict = parent;
            if (is_attribute) {
                if (as_function != nullptr || PyModule_Check(parent) || PyType_Check(parent)) return nullptr;
                dict = cpython::instance_dict_if_made(parent);
                if (dict == nullptr) return cpython::instance_attribute(parent, place.key);
            }
            if (!PyDict_Check(dict)) return nullptr;
            PyObject* found = PyDict_GetItemWithError(dict, place.key);
            if (found == nullptr) PyErr_Clear();
            return found;
        }
        default:
            return nullptr;
    }
}

/// Whether `read` supports all accesses on the way to a source. Printing such a source runs no code.
bool GuardProgram::State::is_readable(std::int32_t number) const {
    for (; number >= 0; number = places[number].parent) switch (places[number].access) {
            case Access::Slot:
            case Access::Function:
            case Access::Globals:
            case Access::ClosureCell:
            case Access::CellContents:
            case Access::Item:
            case Access::InstanceDict:
                continue;
            case Access::DictItem:
                if (PyUnicode_CheckExact(places[number].key)) continue;
                return false;
            default:
                return false;
        }
    return true;
}

/// The sizes of a tensor that are compared, one by one, where others change between calls.
void GuardProgram::State::add_fixed_sizes(const Fact& fact, std::vector<Expected>& all) const {
    const torch_room::TensorCheck& check = tensors[fact.tensor];
    for (std::size_t i = 0; i < check.dimensions; ++i) {
        if (check.dynamic.is_dynamic(i)) continue;
        all.push_back({.place = print_place(fact.place) + torch_room::print_layout_number(i),
                       .kind = fact.kind,
                       .number = fact.place,
                       .key = static_cast<std::uint64_t>(check.sizes_and_strides[i]),
                       .dimension = static_cast<std::int32_t>(i)});
    }
}

std::vector<GuardProgram::Expected> GuardProgram::expected() const {
    // The first ones are about arguments and their contents. A deep model has thousands, none of which selects much.
    constexpr std::size_t kMost = 128;
    std::vector<Expected> all;
    for (const Fact& fact : state_->facts) {
        if (!state_->is_readable(fact.place)) continue;
        std::optional<std::uint64_t> key;
        if (fact.kind == GuardKind::Tensor && state_->tensors[fact.tensor].dynamic.any())
            state_->add_fixed_sizes(fact, all);
        else if (fact.kind == GuardKind::Tensor)
            key = torch_room::may_run_python(state_->tensors[fact.tensor])
                      ? std::nullopt
                      : std::optional(torch_room::sizes_key(state_->tensors[fact.tensor]));
        else if (fact.kind == GuardKind::Constant)
            key = constant_key(fact.expected);
        else if (fact.kind == GuardKind::Identity)
            key = key_of(fact.kind, fact.expected);
        else if (fact.kind == GuardKind::Type)
            key = reinterpret_cast<std::uint64_t>(fact.expected);
        if (!key) continue;
        all.push_back({state_->print_place(fact.place), fact.kind, fact.place, *key});
        if (all.size() >= kMost) break;
    }
    return all;
}

std::optional<std::uint64_t> GuardProgram::found(const Expected& at, PyObject* const* slots, PyObject* function) const {
    PyObject* object = state_->read(at.number, slots, function);
    if (object == nullptr) return std::nullopt;
    if (at.dimension < 0) return key_of(at.kind, object);
    if (!torch_room::sizes_key(object)) return std::nullopt;  // its sizes are computed by code
    return static_cast<std::uint64_t>(torch_room::layout_number(object, static_cast<std::size_t>(at.dimension)));
}

}  // namespace stator

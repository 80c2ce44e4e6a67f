#include "capture/number_inputs.h"

#include "base/names.h"
#include "base/python_error.h"
#include "guard/ranges.h"

namespace stator {

void describe_numbers(Borrowed<> module, std::span<Source* const> inputs, std::span<const Guard> guards) {
    Ref<> ranges;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        bool is_float = PyFloat_CheckExact(inputs[i]->object);
        if (!is_float && !PyLong_CheckExact(inputs[i]->object)) continue;
        if (!ranges) ranges = checked(PyDict_New());
        Range range = range_of(inputs[i], guards);
        Ref<> number = checked(PyLong_FromSize_t(i));
        Ref<> bounds =
            is_float
                ? Ref<>::share(Py_None)
                : checked(Py_BuildValue("LL", static_cast<long long>(range.least), static_cast<long long>(range.most)));
        checked(PyDict_SetItem(ranges.get(), number.get(), bounds.get()));
    }
    if (!ranges) return;
    Ref<> state = checked(PyObject_GetAttr(module, interned("__dict__")));
    checked(PyDict_SetItem(state.get(), interned("_stator_ranges"), ranges.get()));
}

std::vector<std::size_t> burned_in(Borrowed<> module) {
    std::vector<std::size_t> positions;
    Ref<> state = checked(PyObject_GetAttr(module, interned("__dict__")));
    PyObject* numbers = PyDict_GetItemWithError(state.get(), interned("_stator_burned_in"));
    if (numbers == nullptr) return positions;
    Ref<> list = checked(PySequence_List(numbers));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
        positions.push_back(PyLong_AsSize_t(PyList_GET_ITEM(list.get(), i)));
    return positions;
}

}  // namespace stator

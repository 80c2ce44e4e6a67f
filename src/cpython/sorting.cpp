#include "cpython/sorting.h"

#include "base/check.h"
#include "base/python_error.h"

namespace stator::cpython {

namespace {

struct StandIn {
    PyObject_HEAD StepwiseSort* sort;
    std::size_t position;
};

PyObject* compare(PyObject* left, PyObject* right, int op) {
    if (op != Py_LT || Py_TYPE(left) != Py_TYPE(right)) Py_RETURN_NOTIMPLEMENTED;
    auto* item = reinterpret_cast<StandIn*>(left);
    return item->sort->compare({item->position, reinterpret_cast<StandIn*>(right)->position});
}

PyTypeObject* stand_in_class() {
    static PyType_Slot slots[] = {{Py_tp_richcompare, reinterpret_cast<void*>(compare)}, {0, nullptr}};
    static PyType_Spec spec = {"stator.StandIn", sizeof(StandIn), 0, Py_TPFLAGS_DEFAULT, slots};
    static auto* const type = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).release());
    return type;
}

}  // namespace

PyObject* StepwiseSort::compare(Pair pair) {
    if (asked_ < answers_.size()) return PyBool_FromLong(answers_[asked_++]);
    open_ = pair;
    PyErr_SetNone(PyExc_StopIteration);
    return nullptr;
}

std::optional<StepwiseSort::Pair> StepwiseSort::next() {
    Ref<> list = checked(PyList_New(static_cast<Py_ssize_t>(count_)));
    for (std::size_t i = 0; i < count_; ++i) {
        auto* item = PyObject_New(StandIn, stand_in_class());
        if (item == nullptr) throw PythonError();
        item->sort = this;
        item->position = i;
        PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), reinterpret_cast<PyObject*>(item));
    }
    asked_ = 0;
    open_.reset();
    if (PyList_Sort(list.get()) < 0) {
        if (!open_) throw PythonError();
        PyErr_Clear();
    }
    order_.clear();
    for (std::size_t i = 0; i < count_; ++i)
        order_.push_back(reinterpret_cast<StandIn*>(PyList_GET_ITEM(list.get(), static_cast<Py_ssize_t>(i)))->position);
    return open_;
}

}  // namespace stator::cpython

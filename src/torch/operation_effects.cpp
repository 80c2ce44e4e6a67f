#include "torch/operation_effects.h"

#include "base/boundary.h"
#include "base/text.h"
#include "torch/tensor.h"

namespace stator::torch_room {

namespace {

/// The effects of this thread's operations, while they are collected. An operation that the fake kernels call meanwhile
/// does not come here: a dispatch mode is off while it handles one.
thread_local OperationEffects* collecting_into = nullptr;

Ref<> attribute(PyObject* object, const char* name) {
    return checked(PyObject_GetAttrString(object, name));
}

void note_written(PyObject* value) {
    if (PyList_Check(value) || PyTuple_Check(value)) {
        Ref<> items = checked(PySequence_Fast(value, "a sequence"));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
            note_written(PySequence_Fast_GET_ITEM(items.get(), i));
        return;
    }
    if (is_tensor(value)) collecting_into->written.push_back(storage_identity(value));
}

/// Visits the arguments that the schema marks as written to.
void note_writes(PyObject* schema, PyObject* args, PyObject* kwargs) {
    Ref<> arguments = attribute(schema, "arguments");
    Ref<> fast = checked(PySequence_Fast(arguments.get(), "arguments"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
        PyObject* argument = PySequence_Fast_GET_ITEM(fast.get(), i);
        Ref<> alias = attribute(argument, "alias_info");
        if (alias.get() == Py_None) continue;
        Ref<> is_write = attribute(alias.get(), "is_write");
        if (is_write.get() != Py_True) continue;
        PyObject* value = i < PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, i) : nullptr;
        if (value == nullptr && kwargs != nullptr) {
            Ref<> name = attribute(argument, "name");
            value = PyDict_GetItemWithError(kwargs, name.get());
        }
        if (value != nullptr) note_written(value);
    }
}

PyObject* seeded_tag() {
    static PyObject* tag = [] {
        Ref<> module = checked(PyImport_ImportModule("torch"));
        Ref<> tags = attribute(module.get(), "Tag");
        return attribute(tags.get(), "nondeterministic_seeded").release();
    }();
    return tag;
}

/// Whether an operation without results only raises for some data.
bool only_checks(PyObject* schema) {
    Ref<> name = attribute(schema, "name");
    std::string_view text = utf8(name.get());
    return text == "aten::_linalg_check_errors" || text.starts_with("aten::_assert");
}

void note(PyObject* function, PyObject* args, PyObject* kwargs) {
    Ref<> schema = attribute(function, "_schema");
    Ref<> is_mutable = attribute(schema.get(), "is_mutable");
    if (is_mutable.get() == Py_True) note_writes(schema.get(), args, kwargs);
    Ref<> tags = attribute(function, "tags");
    if (checked(PySequence_Contains(tags.get(), seeded_tag()))) collecting_into->random = true;
    Ref<> returns = attribute(schema.get(), "returns");
    if (is_mutable.get() != Py_True && checked(static_cast<int>(PyObject_Length(returns.get()))) == 0)
        collecting_into->side_effect |= !only_checks(schema.get());
}

PyObject* torch_dispatch(PyObject*, PyObject* arguments) {
    PyObject *function, *types, *args = nullptr, *kwargs = nullptr;
    if (!PyArg_ParseTuple(arguments, "OO|OO", &function, &types, &args, &kwargs)) return nullptr;
    if (kwargs == Py_None) kwargs = nullptr;
    return at_boundary([&] {
        Ref<> no_arguments;
        if (args == nullptr) {
            no_arguments = checked(PyTuple_New(0));
            args = no_arguments.get();
        }
        if (collecting_into != nullptr) note(function, args, kwargs);
        return PyObject_Call(function, args, kwargs);
    });
}

PyMethodDef kMethods[] = {{"__torch_dispatch__", torch_dispatch, METH_VARARGS, nullptr}, {}};
PyType_Slot kSlots[] = {{Py_tp_methods, kMethods}, {}};
PyType_Spec kSpec = {"stator._C.OperationObserver", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, kSlots};

/// One mode object serves all threads: effects go to the thread's own place.
Borrowed<> effects_mode() {
    static PyObject* mode = [] {
        Ref<> module = checked(PyImport_ImportModule("torch.utils._python_dispatch"));
        Ref<> base = attribute(module.get(), "TorchDispatchMode");
        Ref<> type = checked(PyType_FromSpecWithBases(&kSpec, base.get()));
        return checked(PyObject_CallNoArgs(type.get())).release();
    }();
    return mode;
}

void enter(PyObject* mode) {
    checked(PyObject_CallMethod(mode, "__enter__", nullptr));
}

void exit(PyObject* mode) {
    Ref<> done = Ref<>::steal(PyObject_CallMethod(mode, "__exit__", "OOO", Py_None, Py_None, Py_None));
    if (!done) PyErr_WriteUnraisable(mode);
}

}  // namespace

EffectsUnderFakeMode::EffectsUnderFakeMode(Borrowed<> fake_mode) : fake_mode_(Ref<>::share(fake_mode)) {
    Ref<> observer = Ref<>::share(effects_mode());
    enter(fake_mode);
    try {
        enter(observer.get());
    } catch (const PythonError&) {
        ErrorAside aside;
        exit(fake_mode);
        throw;
    }
    observer_ = std::move(observer);
    collecting_into = &effects_;
}

EffectsUnderFakeMode::~EffectsUnderFakeMode() {
    ErrorAside aside;
    collecting_into = nullptr;
    exit(observer_.get());
    exit(fake_mode_.get());
}

}  // namespace stator::torch_room

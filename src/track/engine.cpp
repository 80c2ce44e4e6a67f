#include "track/engine.h"

#include "base/names.h"
#include "base/python_error.h"
#include "torch/autograd.h"

namespace stator::track {

namespace {

BackwardWatch observer;
// Never freed: static destructors run after the interpreter is finalized.
Ref<>&plain_engine = *new Ref<>, &watched_engine = *new Ref<>;

/// `run_backward(tensors, gradients, keep_graph, create_graph, ...)`.
PyObject* run_backward(PyObject*, PyObject* args, PyObject* kwargs) {
    constexpr Py_ssize_t kCreateGraph = 3;
    PyObject* create_graph = Py_False;
    if (PyTuple_GET_SIZE(args) > kCreateGraph)
        create_graph = PyTuple_GET_ITEM(args, kCreateGraph);
    else if (kwargs != nullptr && PyDict_GetItemWithError(kwargs, interned("create_graph")) != nullptr)
        create_graph = PyDict_GetItemWithError(kwargs, interned("create_graph"));

    Ref<> plain = Ref<>::steal(PyObject_GetAttr(plain_engine.get(), interned("run_backward")));
    if (!plain) return nullptr;
    BackwardWatch watch = observer;
    watch.before(create_graph != Py_False);
    PyObject* result;
    {
        torch_room::StartedPass pass(PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : args);
        result = PyObject_Call(plain.get(), args, kwargs);
    }
    watch.after(create_graph != Py_False);
    return result;
}

PyMethodDef kMethods[] = {
    {"run_backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run_backward)),
     METH_VARARGS | METH_KEYWORDS, "As PyTorch's, reported to trackers."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot kSlots[] = {{Py_tp_methods, kMethods}, {0, nullptr}};
PyType_Spec kSpec = {"stator._C.WatchedEngine", 0, 0, Py_TPFLAGS_DEFAULT, kSlots};

/// `torch.autograd.Variable`, which holds the engine.
Ref<> engine_holder() {
    Ref<> autograd = checked(PyImport_ImportModule("torch.autograd"));
    return checked(PyObject_GetAttrString(autograd.get(), "Variable"));
}

}  // namespace

void watch_backwards(BackwardWatch watch) {
    Ref<> holder = engine_holder();
    Ref<> engine = checked(PyObject_GetAttr(holder.get(), interned("_execution_engine")));
    if (!watched_engine || !Py_IS_TYPE(engine.get(), Py_TYPE(watched_engine.get()))) plain_engine = engine;
    if (!watched_engine) {
        Ref<> type = checked(PyType_FromSpecWithBases(&kSpec, reinterpret_cast<PyObject*>(Py_TYPE(engine.get()))));
        watched_engine = checked(PyObject_CallNoArgs(type.get()));
    }
    observer = watch;
    checked(PyObject_SetAttr(holder.get(), interned("_execution_engine"), watched_engine.get()));
}

void stop_watching_backwards() {
    ErrorAside aside;
    try {
        Ref<> holder = engine_holder();
        // Other code may have replaced it by now.
        if (checked(PyObject_GetAttr(holder.get(), interned("_execution_engine"))) == watched_engine)
            checked(PyObject_SetAttr(holder.get(), interned("_execution_engine"), plain_engine.get()));
    } catch (const PythonError&) {
        PyErr_Clear();
    }
}

}  // namespace stator::track

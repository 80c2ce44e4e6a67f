/// `stator._C.Compiled`, `reset` and `collect`.
#include <Python.h>
#include <structmember.h>

#include <limits>
#include <unordered_set>

#include "base/check.h"
#include "base/names.h"
#include "base/python_error.h"
#include "cpython/hook.h"
#include "cpython/objects.h"
#include "run/cache.h"
#include "run/notes.h"
#include "run/recording.h"
#include "trace/failing.h"
#include "value/break.h"

namespace stator {

namespace {

/// A callable that runs a function compiled.
struct CompiledObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* callable;          // a function, or a bound method of one
    PyFunctionObject* function;  // the function in it
    PyObject* attributes;        // __dict__
    PyObject* weak_references;
    EntryCache* cache;
};

/// All that live, for `reset`.
std::unordered_set<CompiledObject*>& all_compiled() {
    static auto* all = new std::unordered_set<CompiledObject*>();
    return *all;
}

PyObject* handle_frame(PyThreadState* thread, cpython::Frame* frame, void* context) {
    return static_cast<EntryCache*>(context)->run(thread, frame);
}

PyObject* call(PyObject* self, PyObject* const* arguments, std::size_t count_and_flags, PyObject* names) {
    auto* compiled = reinterpret_cast<CompiledObject*>(self);
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(reinterpret_cast<PyObject*>(compiled->function)));
    return cpython::call_with_hook(code, handle_frame, compiled->cache, compiled->callable, arguments, count_and_flags,
                                   names);
}

/// As `functools.update_wrapper` does.
void take_over_attributes(PyObject* attributes, PyObject* callable) {
    Ref<> own = Ref<>::steal(PyObject_GetAttrString(callable, "__dict__"));
    if (own && PyDict_Check(own.get())) checked(PyDict_Update(attributes, own.get()));
    PyErr_Clear();
    for (const char* name : {"__module__", "__name__", "__qualname__", "__doc__", "__annotations__"}) {
        Ref<> value = Ref<>::steal(PyObject_GetAttrString(callable, name));
        if (value)
            checked(PyDict_SetItemString(attributes, name, value.get()));
        else
            PyErr_Clear();
    }
    checked(PyDict_SetItemString(attributes, "__wrapped__", callable));
}

PyObject* make(PyTypeObject* type, PyObject* positional, PyObject* keywords) {
    PyObject *callable = nullptr, *backend = nullptr, *options = nullptr;
    static const char* names[] = {"function", "backend", "options", nullptr};
    if (!PyArg_ParseTupleAndKeywords(positional, keywords, "OOO!", const_cast<char**>(names), &callable, &backend,
                                     &PyDict_Type, &options))
        return nullptr;
    PyObject* function = PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable;
    if (!PyFunction_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "Compiled takes a Python function or a bound method of one");
        return nullptr;
    }
    Ref<> self = Ref<>::steal(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    auto* compiled = reinterpret_cast<CompiledObject*>(self.get());
    auto is_on = [options](const char* name) {
        PyObject* option = PyDict_GetItemString(options, name);
        return option != nullptr && PyObject_IsTrue(option) == 1;
    };
    compiled->cache = new EntryCache({Ref<>::share(backend), is_on("fullgraph"), is_on("registers_attributes")});
    compiled->vectorcall = call;
    compiled->callable = Py_NewRef(callable);
    compiled->function = reinterpret_cast<PyFunctionObject*>(Py_NewRef(function));
    compiled->attributes = PyDict_New();
    try {
        take_over_attributes(compiled->attributes, callable);
    } catch (const PythonError&) {
        return nullptr;
    }
    all_compiled().insert(compiled);
    return self.release();
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    auto* compiled = reinterpret_cast<CompiledObject*>(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(compiled->callable);
    Py_VISIT(reinterpret_cast<PyObject*>(compiled->function));
    Py_VISIT(compiled->attributes);
    int stopped = 0;
    if (compiled->cache != nullptr)
        compiled->cache->visit([&](PyObject* object) {
            if (stopped == 0) stopped = visit(object, arg);
        });
    return stopped;
}

int clear(PyObject* self) {
    auto* compiled = reinterpret_cast<CompiledObject*>(self);
    if (compiled->cache != nullptr) compiled->cache->release();
    Py_CLEAR(compiled->attributes);
    return 0;
}

void destroy(PyObject* self) {
    auto* compiled = reinterpret_cast<CompiledObject*>(self);
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    all_compiled().erase(compiled);
    if (compiled->weak_references != nullptr) PyObject_ClearWeakRefs(self);
    clear(self);
    delete compiled->cache;
    Py_XDECREF(compiled->callable);
    Py_XDECREF(reinterpret_cast<PyObject*>(compiled->function));
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* bind(PyObject* self, PyObject* instance, PyObject*) {
    if (instance == nullptr || instance == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, instance);
}

PyObject* represent(PyObject* self) {
    return PyUnicode_FromFormat("<stator-compiled %R>", reinterpret_cast<CompiledObject*>(self)->callable);
}

Ref<> list_of_texts(const std::vector<std::string>& texts) {
    Ref<> list = checked(PyList_New(0));
    for (const std::string& line : texts)
        checked(PyList_Append(
            list.get(), checked(PyUnicode_FromStringAndSize(line.data(), static_cast<Py_ssize_t>(line.size()))).get()));
    return list;
}

/// What is kept of each capture, in words: for tests and for whoever wants to know what a call costs.
PyObject* entries(PyObject* self, PyObject*) {
    try {
        Ref<> list = checked(PyList_New(0));
        for (const auto& entry : reinterpret_cast<CompiledObject*>(self)->cache->entries()) {
            std::string plan = print(entry->plan);
            Ref<> described =
                checked(Py_BuildValue("{s:O,s:N,s:N,s:N,s:s}", "captured", entry->is_captured ? Py_True : Py_False,
                                      "guards", list_of_texts(entry->guards.print()).release(), "steps",
                                      list_of_texts(entry->guards.print_steps()).release(), "quick",
                                      list_of_texts(entry->guards.print_quick()).release(), "plan", plan.c_str()));
            checked(PyList_Append(list.get(), described.get()));
        }
        return list.release();
    } catch (const PythonError&) {
        return nullptr;
    }
}

PyMethodDef kMethods[] = {
    {"_entries", entries, METH_NOARGS, "What is kept of each capture: guards, steps of a check, plan."},
    {},
};

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledObject, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledObject, attributes), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompiledObject, weak_references), READONLY, nullptr},
    {"_stator_callable", T_OBJECT_EX, offsetof(CompiledObject, callable), READONLY, "What runs compiled."},
    {},
};

PyGetSetDef kGetters[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {},
};

PyType_Slot kSlots[] = {
    {Py_tp_doc, const_cast<char*>("A callable that runs a function compiled.")},
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(bind)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_tp_members, kMembers},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kGetters},
    {0, nullptr},
};

PyType_Spec kSpec = {
    "stator._C.Compiled",
    sizeof(CompiledObject),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    kSlots,
};

/// `__call__` of a compiled module: hands the call to the compiled `__call__` in its slot, without Python in between.
/// If the model's class has another `__call__` by now, for good or while some tool traces, that one is called instead.
PyObject* call_module(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    Ref<> model = Ref<>::steal(PyObject_GenericGetAttr(self, interned("_stator_original")));
    if (!model) return nullptr;
    Ref<> called = Ref<>::steal(PyObject_GenericGetAttr(self, interned("_stator_called")));
    if (!called) return nullptr;
    bool is_as_compiled = cpython::lookup_in_mro(Py_TYPE(model.get()), interned("__call__")).get() == called.get();
    Ref<> callee =
        is_as_compiled ? Ref<>::steal(PyObject_GenericGetAttr(self, interned("_stator_call"))) : std::move(model);
    if (!callee) return nullptr;
    return PyObject_Vectorcall(callee.get(), arguments, static_cast<std::size_t>(count), names);
}

PyMethodDef kModuleCall = {"__call__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_module)),
                           METH_FASTCALL | METH_KEYWORDS, "Runs the module compiled."};

PyObject* module_call_for(PyObject*, PyObject* type) {
    if (!PyType_Check(type)) return PyErr_Format(PyExc_TypeError, "a class is expected");
    return PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type), &kModuleCall);
}

PyObject* reset(PyObject*, PyObject*) {
    // Releasing entries may make and destroy compiled callables: the list is taken before.
    std::vector<Ref<>> all;
    for (CompiledObject* compiled : all_compiled()) all.push_back(Ref<>::share(reinterpret_cast<PyObject*>(compiled)));
    for (const Ref<>& compiled : all) reinterpret_cast<CompiledObject*>(compiled.get())->cache->clear();
    Py_RETURN_NONE;
}

PyObject* captures(PyObject*, PyObject*) {
    return PyLong_FromSize_t(capture_count());
}

PyObject* break_kinds(PyObject*, PyObject*) {
    try {
        Ref<> kinds = checked(PyDict_New());
        for (int i = 0; i <= static_cast<int>(BreakKind::Raise); ++i) {
            auto kind = static_cast<BreakKind>(i);
            if (kind == BreakKind::Yield) continue;  // of which nobody is told
            checked(PyDict_SetItemString(kinds.get(), name(kind), checked(PyUnicode_FromString(hint(kind))).get()));
        }
        return kinds.release();
    } catch (const PythonError&) {
        return nullptr;
    }
}

PyObject* collect(PyObject*, PyObject* callback) {
    PyObject* before = report_listener;
    report_listener = callback == Py_None ? nullptr : Py_NewRef(callback);
    return before == nullptr ? Py_NewRef(Py_None) : before;
}

/// See `stator.recordings`.
PyObject* replay_trace(PyObject*, PyObject* arguments) {
    PyObject *function = nullptr, *slots = nullptr;
    int at = 0, is_generator = 0;
    Py_ssize_t depth = 0;
    if (!PyArg_ParseTuple(arguments, "O!O!inp", &PyFunction_Type, &function, &PyList_Type, &slots, &at, &depth,
                          &is_generator))
        return nullptr;
    try {
        return trace_again(reinterpret_cast<PyFunctionObject*>(function), slots, bytecode::Index{at},
                           static_cast<std::size_t>(depth), is_generator != 0)
            .release();
    } catch (const PythonError&) {
        return nullptr;
    } catch (const InternalError& error) {
        return PyErr_Format(PyExc_ValueError, "%s", error.what());
    }
}

PyObject* fail_at_node(PyObject*, PyObject* number) {
    if (number == Py_None) {
        failing_node = std::numeric_limits<std::size_t>::max();
        Py_RETURN_NONE;
    }
    std::size_t wanted = PyLong_AsSize_t(number);
    if (PyErr_Occurred() != nullptr) return nullptr;
    failing_node = wanted;
    Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"trace_again", replay_trace, METH_VARARGS, "(function, slots, at, stack depth, is generator): a recorded trace."},
    {"fail_at_node", fail_at_node, METH_O,
     "Makes adding node n to a graph an internal error; None ends that. For tests."},
    {"module_call_for", module_call_for, METH_O, "The __call__ of a class of compiled modules."},
    {"reset", reset, METH_NOARGS, "Forgets every entry, and releases all that entries hold."},
    {"captures", captures, METH_NOARGS, "How many captures succeeded since the process began."},
    {"break_kinds", break_kinds, METH_NOARGS, "The stable names of all kinds of breaks, with a hint for each."},
    {"collect", collect, METH_O, "Sets who is told of captures in this thread; returns who was told before."},
    {},
};

}  // namespace

bool bind_run(PyObject* module) {
    Ref<> type = Ref<>::steal(PyType_FromSpec(&kSpec));
    if (!type || PyModule_AddObjectRef(module, "Compiled", type.get()) < 0) return false;
    tell_of_watchers();
    return PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator

/// `stator._C.Compiled`, `reset` and `collect`.
#include <Python.h>
#include <dlfcn.h>
#include <structmember.h>

#include <algorithm>

#include "base/boundary.h"
#include "base/names.h"
#include "base/stack_room.h"
#include "capture/capture.h"
#include "capture/failed_traces.h"
#include "capture/notes.h"
#include "capture/rehearsal.h"
#include "cpython/hook.h"
#include "cpython/objects.h"
#include "module/compiled_coroutine.h"
#include "module/compiled_object.h"
#include "module/watched_calls.h"
#include "run/frame_run.h"
#include "run/miss.h"
#include "run/orphans.h"
#include "run/skipped_code.h"
#include "run/stance.h"
#include "shape/language/registry.h"
#include "torch/known.h"
#include "value/builtins/builtin.h"

namespace stator {

std::unordered_set<CompiledObject*>& all_compiled() {
    static auto* all = new std::unordered_set<CompiledObject*>();
    return *all;
}

namespace {

PyObject* handle_frame(PyThreadState* thread, cpython::Frame* frame, void* context) {
    return run_frame(*static_cast<EntryCache*>(context), thread, frame, /*is_main=*/true);
}

/// Whether this thread runs code that torch._dynamo compiles. Called only if a frame-evaluation hook is installed that
/// is not ours.
bool is_inside_torch_compile() {
    static PyObject* const get_callback = [] {
        Ref<> module = Ref<>::steal(PyImport_ImportModule("torch._C._dynamo.eval_frame"));
        return module ? PyObject_GetAttrString(module.get(), "get_eval_frame_callback") : nullptr;
    }();
    Ref<> callback = get_callback == nullptr ? Ref<>() : Ref<>::steal(PyObject_CallNoArgs(get_callback));
    PyErr_Clear();
    return callback && PyCallable_Check(callback.get()) != 0;
}

}  // namespace

PyObject* call_compiled(PyObject* self, PyObject* const* arguments, std::size_t count_and_flags, PyObject* names) {
    // Not every caller owns a reference, and the called code may drop the last other one.
    Ref<> held = Ref<>::share(self);
    auto* compiled = reinterpret_cast<CompiledObject*>(self);
    // The outermost compiler wins: torch._dynamo inlines the original function.
    if (cpython::has_hook_of_others() && is_inside_torch_compile()) [[unlikely]]
        return PyObject_Vectorcall(compiled->callable, arguments, count_and_flags, names);
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(reinterpret_cast<PyObject*>(compiled->function)));
    if ((code->co_flags & CO_COROUTINE) != 0) [[unlikely]]
        return with_captured_steps(compiled,
                                   PyObject_Vectorcall(compiled->callable, arguments, count_and_flags, names));
    return cpython::call_with_hook(code, handle_frame, compiled->cache, compiled->callable, arguments, count_and_flags,
                                   names);
}

namespace {

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
    auto dynamic_shapes = [options] {
        PyObject* option = PyDict_GetItemString(options, "dynamic");
        if (option == nullptr || option == Py_None) return DynamicShapes::Automatic;
        return PyObject_IsTrue(option) == 1 ? DynamicShapes::Always : DynamicShapes::Never;
    };
    auto given = [options](const char* name) {
        PyObject* option = PyDict_GetItemString(options, name);
        return option == Py_None ? nullptr : option;
    };
    CompileOptions chosen{Ref<>::share(backend), is_on("fullgraph"), is_on("registers_attributes"), dynamic_shapes()};
    if (PyObject* limit = given("recompile_limit"); limit != nullptr && PyLong_Check(limit))
        chosen.recompile_limit = PyLong_AsLong(limit);
    if (PyObject* listener = given("listener")) chosen.listener = Ref<>::share(listener);
    if (PyObject* listener = given("before_capture")) chosen.before_capture = Ref<>::share(listener);
    if (PyObject* filter = given("guard_filter")) chosen.guard_filter = Ref<>::share(filter);
    chosen.is_isolated = is_on("isolate_recompiles");
    if (PyObject* region = given("region"); region != nullptr && PyLong_Check(region))
        chosen.region = PyLong_AsLong(region);
    compiled->cache = new EntryCache(std::move(chosen));
    compiled->vectorcall = current_call();
    compiled->callable = Py_NewRef(callable);
    compiled->function = reinterpret_cast<PyFunctionObject*>(Py_NewRef(function));
    compiled->options = Py_NewRef(options);
    compiled->attributes = PyDict_New();
    if (!at_boundary([&] { take_over_attributes(compiled->attributes, callable); })) return nullptr;
    all_compiled().insert(compiled);
    return self.release();
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    auto* compiled = reinterpret_cast<CompiledObject*>(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(compiled->callable);
    Py_VISIT(reinterpret_cast<PyObject*>(compiled->function));
    Py_VISIT(compiled->attributes);
    Py_VISIT(compiled->options);
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
    Py_CLEAR(compiled->options);
    return 0;
}

void destroy(PyObject* self) {
    auto* compiled = reinterpret_cast<CompiledObject*>(self);
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    all_compiled().erase(compiled);
    if (compiled->weak_references != nullptr) PyObject_ClearWeakRefs(self);
    std::unique_ptr<EntryCache> cache(std::exchange(compiled->cache, nullptr));
    clear(self);
    PyObject* const callable = compiled->callable;
    Ref<> subject = Ref<>::share(callable && PyMethod_Check(callable) ? PyMethod_GET_SELF(callable) : callable);
    Py_XDECREF(callable);
    Py_XDECREF(reinterpret_cast<PyObject*>(compiled->function));
    // After the function, which may have been the last user of the code.
    if (cache) orphans::leave(std::move(cache), std::move(subject));
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

/// The contents of each entry as text: for tests, and to see what a call costs.
PyObject* entries(PyObject* self, PyObject*) {
    return at_boundary([&] {
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
        return list;
    });
}

/// `stator.copies.NAME(self, argument)`.
PyObject* call_copies(const char* name, PyObject* self, PyObject* argument) {
    Ref<> copies = Ref<>::steal(PyImport_ImportModule("stator.copies"));
    return copies ? PyObject_CallMethod(copies.get(), name, "OO", self, argument) : nullptr;
}

PyObject* reduce(PyObject* self, PyObject* protocol) {
    return call_copies("reduce", self, protocol);
}

PyObject* deep_copy(PyObject* self, PyObject* memo) {
    return call_copies("deep_copy", self, memo);
}

/// As for functions, the copy is the object itself.
PyObject* shallow_copy(PyObject* self, PyObject*) {
    return Py_NewRef(self);
}

/// For tools that inspect the function: its code, its globals, whether it is a function or a method.
PyObject* get_class(PyObject* self, void*) {
    return Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(reinterpret_cast<CompiledObject*>(self)->callable)));
}

PyObject* get_of_function(PyObject* self, void* name) {
    auto* function = reinterpret_cast<PyObject*>(reinterpret_cast<CompiledObject*>(self)->function);
    return PyObject_GetAttrString(function, static_cast<const char*>(name));
}

PyObject* get_of_callable(PyObject* self, void* name) {
    return PyObject_GetAttrString(reinterpret_cast<CompiledObject*>(self)->callable, static_cast<const char*>(name));
}

PyMethodDef kMethods[] = {
    {"__reduce_ex__", reduce, METH_O, "By reference if it is found by its name, otherwise compiled again."},
    {"__deepcopy__", deep_copy, METH_O, "Itself, or the method of the copied object, compiled again."},
    {"__copy__", shallow_copy, METH_NOARGS, "Itself."},
    {"_entries", entries, METH_NOARGS, "The entries as text: guards, steps of a check, plan."},
    {},
};

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledObject, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledObject, attributes), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompiledObject, weak_references), READONLY, nullptr},
    {"_stator_callable", T_OBJECT_EX, offsetof(CompiledObject, callable), READONLY, "The original callable."},
    {"_stator_options", T_OBJECT_EX, offsetof(CompiledObject, options), READONLY, "The options of the compilation."},
    // Not in the `__dict__`, from which functools.wraps would copy it to other functions.
    {"_torchdynamo_inline", T_OBJECT_EX, offsetof(CompiledObject, callable), READONLY,
     "The function that torch._dynamo inlines for a call of this one."},
    {},
};

PyGetSetDef kGetters[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"__class__", get_class, nullptr, nullptr, nullptr},
    {"__code__", get_of_function, nullptr, nullptr, const_cast<char*>("__code__")},
    {"__globals__", get_of_function, nullptr, nullptr, const_cast<char*>("__globals__")},
    {"__closure__", get_of_function, nullptr, nullptr, const_cast<char*>("__closure__")},
    {"__defaults__", get_of_function, nullptr, nullptr, const_cast<char*>("__defaults__")},
    {"__kwdefaults__", get_of_function, nullptr, nullptr, const_cast<char*>("__kwdefaults__")},
    {"__self__", get_of_callable, nullptr, nullptr, const_cast<char*>("__self__")},
    {"__func__", get_of_callable, nullptr, nullptr, const_cast<char*>("__func__")},
    {},
};

PyType_Slot kSlots[] = {
    {Py_tp_doc, const_cast<char*>("A compiled function or method.")},
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

PyObject* call_module(PyObject* self, PyObject* arguments, PyObject* keywords);

// Compiled modules (stator/modules.py). C code calls slots that are set here and bypass the special methods of their
// classes: those are for tools that inspect the class, torch._dynamo above all.

/// The class of the model, from which the class of a compiled module is derived.
PyTypeObject* model_class_of(PyObject* compiled) {
    for (PyTypeObject* type = Py_TYPE(compiled); type != nullptr; type = type->tp_base)
        if (type->tp_call == call_module) return reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, 1));
    return torch_room::known().module_class;
}

/// The model of a compiled module; empty if `stator.compile` did not create the object (`type(compiled)(...)`).
Ref<> model_of(PyObject* compiled) {
    Ref<> model = Ref<>::steal(PyObject_GenericGetAttr(compiled, interned("_stator_original")));
    if (!model) PyErr_Clear();
    return model;
}

/// Synchronizes a compiled module with its model: one of them may have got another class or another `__dict__`. False
/// with an exception.
bool follow(PyObject* compiled, PyObject* model) {
    if (Py_TYPE(model) == model_class_of(compiled) && cpython::instance_dict(model) == cpython::instance_dict(compiled))
        [[likely]]
        return true;
    Ref<> modules = Ref<>::steal(PyImport_ImportModule("stator.modules"));
    return modules && Ref<>::steal(PyObject_CallMethod(modules.get(), "follow", "O", compiled));
}

/// Calls the compiled `__call__` in its slot, without Python code in between. If the model's class has another
/// `__call__` now, permanently or while a tool traces, that one is called instead.
PyObject* call_module(PyObject* self, PyObject* arguments, PyObject* keywords) {
    Ref<> model = model_of(self);
    if (!model) {
        auto* model_class = reinterpret_cast<PyObject*>(model_class_of(self));
        Ref<> method = Ref<>::steal(PyObject_GetAttr(model_class, interned("__call__")));
        Ref<> bound = method ? Ref<>::steal(PyMethod_New(method.get(), self)) : Ref<>();
        return bound ? PyObject_Call(bound.get(), arguments, keywords) : nullptr;
    }
    Ref<> called = Ref<>::steal(PyObject_GenericGetAttr(self, interned("_stator_called")));
    if (!called) return nullptr;
    bool is_as_compiled = cpython::lookup_in_mro(Py_TYPE(model.get()), interned("__call__")).get() == called.get();
    Ref<> callee = is_as_compiled ? Ref<>::steal(PyObject_GenericGetAttr(self, interned("_stator_call"))) : model;
    if (!callee) return nullptr;
    Ref<> result =
        Ref<>::steal(PyObject_VectorcallDict(callee.get(), &PyTuple_GET_ITEM(arguments, 0),
                                             static_cast<std::size_t>(PyTuple_GET_SIZE(arguments)), keywords));
    // A lazy module changes its class in its first call.
    if (result && !follow(self, model.get())) return nullptr;
    return result.release();
}

bool has_own_getter(PyTypeObject* type) {
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(type, interned("__getattribute__"), &owner);
    return owner != &PyBaseObject_Type;
}

/// `__class__` is that of the model. Otherwise the attribute in the shared `__dict__` or of the class, then that of the
/// model, which finds parameters, buffers and submodules.
PyObject* get_module_attribute(PyObject* self, PyObject* name) {
    Ref<> model = model_of(self);
    if (!model) return model_class_of(self)->tp_getattro(self, name);
    if (!follow(self, model.get())) return nullptr;
    if (name == interned("__class__")) return Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(model.get())));
    if (has_own_getter(Py_TYPE(self))) return Py_TYPE(model.get())->tp_getattro(self, name);
    PyObject* found = _PyObject_GenericGetAttrWithDict(self, name, nullptr, /*suppress=*/1);
    return found != nullptr || PyErr_Occurred() != nullptr ? found : PyObject_GetAttr(model.get(), name);
}

PyObject* set_module_slots(PyObject*, PyObject* object) {
    if (!PyType_Check(object)) return PyErr_Format(PyExc_TypeError, "a class is expected");
    auto* type = reinterpret_cast<PyTypeObject*>(object);
    type->tp_call = call_module;
    type->tp_getattro = get_module_attribute;
    Py_RETURN_NONE;
}

/// Sets the `__call__` of a class without changing the slot that C code calls. It is for tools that inspect the class.
PyObject* show_call(PyObject*, PyObject* arguments) {
    PyObject *type = nullptr, *function = nullptr;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyType_Type, &type, &PyFunction_Type, &function)) return nullptr;
    if (PyDict_SetItem(cpython::class_dict(reinterpret_cast<PyTypeObject*>(type)).get(), interned("__call__"),
                       function) < 0)
        return nullptr;
    PyType_Modified(reinterpret_cast<PyTypeObject*>(type));
    Py_RETURN_NONE;
}

PyObject* reset(PyObject*, PyObject*) {
    // Releasing entries may create and destroy compiled callables: the list is copied first.
    std::vector<Ref<>> all;
    for (CompiledObject* compiled : all_compiled()) all.push_back(Ref<>::share(reinterpret_cast<PyObject*>(compiled)));
    for (const Ref<>& compiled : all) reinterpret_cast<CompiledObject*>(compiled.get())->cache->clear();
    orphans::clear();
    Py_RETURN_NONE;
}

/// For every callable: itself, whether it was ever called, how often it was captured, and how many entries have a
/// graph.
PyObject* callables(PyObject*, PyObject*) {
    return at_boundary([&] {
        Ref<> list = checked(PyList_New(0));
        for (CompiledObject* compiled : all_compiled()) {
            auto entries = compiled->cache->entries();
            auto graphs = std::ranges::count_if(entries, [](const auto& entry) { return entry->has_graph(); });
            Ref<> described =
                checked(Py_BuildValue("(OOnn)", compiled, compiled->cache->was_entered() ? Py_True : Py_False,
                                      static_cast<Py_ssize_t>(entries.size()), static_cast<Py_ssize_t>(graphs)));
            checked(PyList_Append(list.get(), described.get()));
        }
        return list;
    });
}

/// For tools that read torch._dynamo's caches (stator/cache_views.py).
PyObject* entries_of(PyObject*, PyObject* arguments) {
    PyObject* code = nullptr;
    int at = 0;
    if (!PyArg_ParseTuple(arguments, "O!|i", &PyCode_Type, &code, &at)) return nullptr;
    return at_boundary([&] {
        Ref<> list = checked(PyList_New(0));
        for (const OwnedEntry& one : EntryCache::entries_of(reinterpret_cast<PyCodeObject*>(code), {at})) {
            auto or_none = [](const Ref<>& object) { return object ? object.get() : Py_None; };
            Ref<> described =
                checked(Py_BuildValue("(lOON)", one.region, or_none(one.entry->compile_id), or_none(one.backend),
                                      list_of_texts(one.entry->guards.print()).release()));
            checked(PyList_Append(list.get(), described.get()));
        }
        return list;
    });
}

PyObject* resumed_at(PyObject*, PyObject* code) {
    if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "a code object is expected");
    return at_boundary([&] {
        Ref<> list = checked(PyList_New(0));
        for (bytecode::Index at : EntryCache::resumed_at(reinterpret_cast<PyCodeObject*>(code)))
            checked(PyList_Append(list.get(), checked(PyLong_FromLong(at.value)).get()));
        return list;
    });
}

PyObject* skip_code(PyObject*, PyObject* code) {
    if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "a code object is expected");
    if (!at_boundary([&] { skip(reinterpret_cast<PyCodeObject*>(code)); })) return nullptr;
    Py_RETURN_NONE;
}

PyObject* collect(PyObject*, PyObject* callback) {
    PyObject* before = report_listener;
    report_listener = callback == Py_None ? nullptr : Py_NewRef(callback);
    return before == nullptr ? Py_NewRef(Py_None) : before;
}

PyObject* observe(PyObject*, PyObject* observer) {
    PyObject* before = capture_observer;
    capture_observer = observer == Py_None ? nullptr : Py_NewRef(observer);
    return before == nullptr ? Py_NewRef(Py_None) : before;
}

/// The library and the function of another tool's frame-evaluation hook; None if there is none.
PyObject* foreign_hook(PyObject*, PyObject*) {
    const void* function = cpython::hook_of_others();
    if (function == nullptr) Py_RETURN_NONE;
    Dl_info found{};
    if (dladdr(function, &found) == 0) return Py_BuildValue("(ss)", "?", "?");
    return Py_BuildValue("(ss)", found.dli_fname == nullptr ? "?" : found.dli_fname,
                         found.dli_sname == nullptr ? "?" : found.dli_sname);
}

/// See `stator.recordings`.
PyObject* replay_trace(PyObject*, PyObject* arguments) {
    PyObject *function = nullptr, *slots = nullptr;
    int at = 0, is_generator = 0;
    Py_ssize_t depth = 0;
    if (!PyArg_ParseTuple(arguments, "O!O!inp", &PyFunction_Type, &function, &PyList_Type, &slots, &at, &depth,
                          &is_generator))
        return nullptr;
    return at_boundary([&] {
        return trace_again(reinterpret_cast<PyFunctionObject*>(function), slots, bytecode::Index{at},
                           static_cast<std::size_t>(depth), is_generator != 0);
    });
}

/// See `stator.stances`.
PyObject* set_stance(PyObject*, PyObject* arguments) {
    PyObject* stance = nullptr;
    int is_own = 0;
    if (!PyArg_ParseTuple(arguments, "Op", &stance, &is_own)) return nullptr;
    follow_stance(stance, is_own != 0);
    Py_RETURN_NONE;
}

PyObject* build_tables(PyObject*, PyObject*) {
    return at_boundary([]() -> Ref<> {
        Handlers::instance();
        shape::Registry::get();
        is_stack_low();  // reads where the stack of this thread ends
        return Ref<>::share(Py_None);
    });
}

/// See `stator.first_trace`.
PyObject* rehearse_capture(PyObject*, PyObject* arguments) {
    PyObject *function = nullptr, *slots = nullptr, *backend = nullptr;
    if (!PyArg_ParseTuple(arguments, "O!O!O", &PyFunction_Type, &function, &PyList_Type, &slots, &backend))
        return nullptr;
    return at_boundary([&] {
        rehearse_miss();
        CompileOptions options;
        options.backend = Ref<>::share(backend);
        Ref<> runner = rehearse(reinterpret_cast<PyFunctionObject*>(function), slots, options);
        return runner ? std::move(runner) : Ref<>::share(Py_None);
    });
}

PyMethodDef kFunctions[] = {
    {"build_tables", build_tables, METH_NOARGS, "Builds what the first capture of a process needs."},
    {"rehearse_capture", rehearse_capture, METH_VARARGS,
     "(function, slots, backend): goes through the stages of a capture, up to a runner; None if it has a graph break."},
    {"trace_again", replay_trace, METH_VARARGS, "(function, slots, at, stack depth, is generator): a recorded trace."},
    {"follow_stance", set_stance, METH_VARARGS,
     "(stance, is the thread's own): a stance of torch._dynamo for this thread, or for all that have none."},
    {"show_call", show_call, METH_VARARGS, "(class, function): shows the function as the `__call__` of the class."},
    {"set_module_slots", set_module_slots, METH_O,
     "Sets the type slots that make instances of the class compiled modules."},
    {"reset", reset, METH_NOARGS, "Drops every entry."},
    {"callables", callables, METH_NOARGS, "(callable, was called, captures, graphs) of every compiled callable."},
    {"entries_of", entries_of, METH_VARARGS,
     "(region, compile id, backend, guards) of each entry of a code that starts at an instruction, by default the "
     "first."},
    {"resumed_at", resumed_at, METH_O, "The instructions of a code after graph breaks at which entries start."},
    {"skip_code", skip_code, METH_O, "Frames of this code object run uncompiled from now on."},
    {"collect", collect, METH_O, "Sets the listener for captures of this thread; returns the previous one."},
    {"watch_calls", watch_calls, METH_O, "Sets the listener for calls in this thread; returns the previous one."},
    {"run_uncompiled", run_uncompiled, METH_O,
     "Whether compiled callables run uncompiled in this thread; returns what was before."},
    {"foreign_hook", foreign_hook, METH_NOARGS,
     "(library, function) of another tool's frame-evaluation hook, or None."},
    {"observe", observe, METH_O, "Sets the observer of the captures of all threads; returns the previous one."},
    {},
};

}  // namespace

bool bind_run(PyObject* module) {
    Ref<> type = Ref<>::steal(PyType_FromSpec(&kSpec));
    if (!type || PyModule_AddObjectRef(module, "Compiled", type.get()) < 0) return false;
    install_watcher_notes();
    return PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator

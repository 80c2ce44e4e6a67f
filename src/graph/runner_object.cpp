/// `stator._C.Runner`: a runner as Python calls it.
#include <cstddef>
#include <memory>
#include <vector>

#include "base/boundary.h"
#include "base/python_error.h"
#include "base/text.h"
#include "graph/captured.h"
#include "graph/program.h"
#include "graph/runner.h"

namespace stator::graph {

namespace {

struct RunnerObject {
    PyObject ob_base;
    vectorcallfunc vectorcall;
    PyObject* captured;  // owned; null once the runner is created
    Runner* runner;      // created at the first call: many graphs are never run this way
    PyObject* module;    // owned; the graph module whose attributes are read, or null
    bool prepares_calls;
    Recording recording;
    PyObject* weak_references;
};

RunnerObject* object_of(PyObject* self) {
    return reinterpret_cast<RunnerObject*>(self);
}

const Runner& ready(RunnerObject* self) {
    if (self->runner != nullptr) return *self->runner;
    // Creating objects may collect garbage, whose finalizers may call this runner, here or in another thread.
    Ref<> captured = Ref<>::share(self->captured);
    auto runner = std::make_unique<Runner>(captured_of(captured)->graph());
    if (self->runner != nullptr) return *self->runner;
    self->runner = runner.release();
    if (self->prepares_calls) self->runner->prepare_calls(self->recording);
    Py_CLEAR(self->captured);
    // A runner that reads no attributes needs no module, which avoids a reference cycle.
    if (!self->runner->reads_attributes()) Py_CLEAR(self->module);
    return *self->runner;
}

Ref<> text_of(const std::string& text) {
    return checked(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

Ref<> complain_about_count(const Runner& runner, std::size_t given) {
    PyErr_Format(PyExc_TypeError, "forward() takes %zu positional arguments but %zu were given", runner.input_count(),
                 given);
    return nullptr;
}

Ref<> complain_about_keyword(const char* problem, PyObject* name) {
    PyErr_Format(PyExc_TypeError, problem, name);
    return nullptr;
}

/// Inputs given by the names of the placeholders. Rare: compiled code passes them by position.
Ref<> call_with_keywords(RunnerObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
    const Runner& runner = ready(self);
    if (count > runner.input_count()) return complain_about_count(runner, count);
    std::vector<PyObject*> inputs(args, args + count);
    inputs.resize(runner.input_count());
    const std::vector<std::string> placeholders = runner.placeholders();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
        PyObject* name = PyTuple_GET_ITEM(names, i);
        std::size_t place = 0;
        while (place < inputs.size() && placeholders[place] != utf8(name)) ++place;
        if (place == inputs.size())
            return complain_about_keyword("forward() got an unexpected keyword argument '%U'", name);
        if (inputs[place] != nullptr)
            return complain_about_keyword("forward() got multiple values for argument '%U'", name);
        inputs[place] = args[count + i];
    }
    for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i] == nullptr)
            return complain_about_keyword("forward() missing 1 required positional argument: '%U'",
                                          text_of(placeholders[i]).get());
    return runner.run(inputs, self->module);
}

PyObject* call(PyObject* callable, PyObject* const* args, std::size_t flags, PyObject* names) {
    RunnerObject* self = object_of(callable);
    auto count = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
    return at_boundary([&]() -> Ref<> {
        if (names != nullptr && PyTuple_GET_SIZE(names) > 0) return call_with_keywords(self, args, count, names);
        const Runner& runner = ready(self);
        if (count != runner.input_count()) return complain_about_count(runner, count);
        return runner.run({args, count}, self->module);
    });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(object_of(self)->module);
    Py_VISIT(object_of(self)->captured);
    const Runner* runner = object_of(self)->runner;
    return runner == nullptr ? 0 : runner->traverse(visit, arg);
}

int clear(PyObject* self) {
    // Does not clear the captured graph, which later calls need; its own `tp_clear` breaks the cycle.
    Py_CLEAR(object_of(self)->module);
    return 0;
}

void dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    if (object_of(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
    Py_CLEAR(object_of(self)->module);
    Py_CLEAR(object_of(self)->captured);
    delete object_of(self)->runner;
    PyObject_GC_Del(self);
}

PyObject* name(PyObject*, void*) {
    return PyUnicode_FromString("forward");
}

Ref<> tuple_of_placeholders(PyObject* self) {
    const Runner& runner = ready(object_of(self));
    const std::vector<std::string> names = runner.placeholders();
    Ref<> tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
    for (std::size_t i = 0; i < names.size(); ++i) PyTuple_SET_ITEM(tuple.get(), i, text_of(names[i]).release());
    return tuple;
}

PyObject* placeholders(PyObject* self, void*) {
    return at_boundary([&] { return tuple_of_placeholders(self); });
}

/// For `inspect.signature`: the signature of the generated `forward`.
PyObject* signature(PyObject* self, void*) {
    return at_boundary([&] {
        Ref<> inspect = checked(PyImport_ImportModule("inspect"));
        Ref<> parameter = checked(PyObject_GetAttrString(inspect.get(), "Parameter"));
        Ref<> kind = checked(PyObject_GetAttrString(parameter.get(), "POSITIONAL_OR_KEYWORD"));
        Ref<> names = tuple_of_placeholders(self), parameters = checked(PyList_New(0));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
            PyObject* arguments[] = {PyTuple_GET_ITEM(names.get(), i), kind.get()};
            Ref<> made = checked(PyObject_Vectorcall(parameter.get(), arguments, 2, nullptr));
            checked(PyList_Append(parameters.get(), made.get()));
        }
        return checked(PyObject_CallMethod(inspect.get(), "Signature", "O", parameters.get()));
    });
}

/// Of what was prepared so far: (steps, calls of operators).
PyObject* prepared(PyObject* self, void*) {
    return at_boundary([&] {
        const Program* program = ready(object_of(self)).program();
        const auto steps = program == nullptr ? 0 : static_cast<Py_ssize_t>(program->prepared_steps());
        const auto calls = program == nullptr ? 0 : static_cast<Py_ssize_t>(program->prepared_calls());
        return checked(Py_BuildValue("(nn)", steps, calls));
    });
}

/// Of the results that have memory of a plan: (how many, views of them, bytes that are kept between calls).
PyObject* planned(PyObject* self, void*) {
    return at_boundary([&] {
        const Program* program = ready(object_of(self)).program();
        torch_room::PreparedCalls::PlannedMemory memory;
        if (program != nullptr && program->calls() != nullptr) memory = program->calls()->planned_memory();
        return checked(Py_BuildValue("(nnn)", static_cast<Py_ssize_t>(memory.values),
                                     static_cast<Py_ssize_t>(memory.views), static_cast<Py_ssize_t>(memory.bytes)));
    });
}

Ref<> list_of_recordings(const Program& program) {
    Ref<> list = checked(PyList_New(0));
    for (const Program::RecordingState& state : program.recording_states()) {
        Ref<> part =
            checked(Py_BuildValue("{s:I,s:I,s:s,s:n,s:n,s:K,s:s}", "first", state.first, "last", state.last, "name",
                                  program.step_name(state.first).c_str(), "calls", static_cast<Py_ssize_t>(state.calls),
                                  "recordings", static_cast<Py_ssize_t>(state.recordings), "replays",
                                  static_cast<unsigned long long>(state.replays), "reason", state.reason.c_str()));
        checked(PyList_Append(list.get(), part.get()));
    }
    return list;
}

/// Of the parts of a program on a device that records: what was recorded, and what was not, and why.
PyObject* recorded(PyObject* self, void*) {
    return at_boundary([&] {
        const Program* program = ready(object_of(self)).program();
        return program == nullptr ? checked(PyList_New(0)) : list_of_recordings(*program);
    });
}

Ref<> list_of_operators(const Program* program, torch_room::PreparedCalls::Gradients gradients) {
    Ref<> list = checked(PyList_New(0));
    if (program == nullptr || program->calls() == nullptr) return list;
    for (const std::string& name : program->calls()->operators(gradients))
        checked(PyList_Append(list.get(), text_of(name).get()));
    return list;
}

/// (where gradients are wanted, where none are)
PyObject* operators(PyObject* self, void*) {
    using Gradients = torch_room::PreparedCalls::Gradients;
    return at_boundary([&] {
        const Program* program = ready(object_of(self)).program();
        Ref<> wanted = list_of_operators(program, Gradients::Wanted);
        Ref<> not_wanted = list_of_operators(program, Gradients::NotWanted);
        return checked(PyTuple_Pack(2, wanted.get(), not_wanted.get()));
    });
}

PyGetSetDef kProperties[] = {
    {"__name__", name, nullptr, nullptr, nullptr},
    {"__qualname__", name, nullptr, nullptr, nullptr},
    {"__signature__", signature, nullptr, nullptr, nullptr},
    {"placeholders", placeholders, nullptr, "The names of the inputs.", nullptr},
    {"prepared", prepared, nullptr, "How many steps are prepared, and the operators that they call.", nullptr},
    {"planned", planned, nullptr, "How many results and views are the same tensors in all calls, and their bytes.",
     nullptr},
    {"recorded", recorded, nullptr, "The parts of the graph, and what is recorded of them.", nullptr},
    {"operators", operators, nullptr, "The operators called with gradients, and those called without.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject kRunnerType = {
    .ob_base = {PyObject_HEAD_INIT(nullptr) 0},
    .tp_name = "stator._C.Runner",
    .tp_basicsize = sizeof(RunnerObject),
    .tp_dealloc = dealloc,
    .tp_vectorcall_offset = offsetof(RunnerObject, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Runs a captured graph without generated Python.",
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_weaklistoffset = offsetof(RunnerObject, weak_references),
    .tp_getset = kProperties,
};

}  // namespace

Ref<> make_runner(Borrowed<> captured, Borrowed<> module, Calls calls, Recording recording) {
    auto* self = PyObject_GC_New(RunnerObject, &kRunnerType);
    if (self == nullptr) throw PythonError();
    self->vectorcall = call;
    self->captured = Py_NewRef(captured.get());
    self->runner = nullptr;
    self->module = Py_XNewRef(module.get());
    self->prepares_calls = calls == Calls::Prepared;
    self->recording = recording;
    self->weak_references = nullptr;
    PyObject_GC_Track(self);
    return Ref<>::steal(reinterpret_cast<PyObject*>(self));
}

const Runner* runner_of(Borrowed<> object) {
    return Py_IS_TYPE(object.get(), &kRunnerType) ? &ready(object_of(object)) : nullptr;
}

Borrowed<> module_of_runner(Borrowed<> object) {
    return object_of(object)->module;
}

bool add_runner_type(PyObject* module) {
    return PyModule_AddType(module, &kRunnerType) == 0;
}

}  // namespace stator::graph

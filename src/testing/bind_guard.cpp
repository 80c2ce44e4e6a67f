/// Guard programs as Python objects, for tests and measurements: sources and guards are given as plain tuples.
#include <algorithm>
#include <chrono>
#include <new>
#include <string_view>

#include "base/boundary.h"
#include "base/check.h"
#include "base/text.h"
#include "guard/program.h"

namespace stator {

namespace {

constexpr std::string_view kAccessNames[] = {
#define ACCESS(name) #name,
#include "source/accesses.def"
#undef ACCESS
};
constexpr std::string_view kGuardNames[] = {
#define GUARD_KIND(name) #name,
#include "guard/guard_kinds.def"
#undef GUARD_KIND
};

template <class Enum, std::size_t size>
Enum named(const std::string_view (&names)[size], PyObject* name) {
    auto* found = std::ranges::find(names, utf8(name));
    STATOR_CHECK(found != std::end(names), "unknown name " + short_repr(name));
    return static_cast<Enum>(found - names);
}

/// NotImplemented represents null, since None is a value.
PyObject* object_or_null(PyObject* object) {
    return object == Py_NotImplemented ? nullptr : object;
}

struct ProgramObject {
    PyObject_HEAD GuardProgram* program;
    double build_nanoseconds;
};

ProgramObject* as_program(PyObject* self) {
    return reinterpret_cast<ProgramObject*>(self);
}

GuardProgram& program_of(PyObject* self) {
    return *as_program(self)->program;
}

/// Sources as tuples (access, index of the parent or -1, key, number, object).
std::vector<Source*> make_sources(Provenance& provenance, PyObject* descriptions) {
    std::vector<Source*> sources;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(descriptions); ++i) {
        PyObject *name, *key, *object;
        int parent, number;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(descriptions, i), "OiOiO", &name, &parent, &key, &number, &object))
            throw PythonError();
        auto access = named<Access>(kAccessNames, name);
        key = object_or_null(key);
        object = object_or_null(object);
        if (access == Access::Slot)
            sources.push_back(provenance.slot(number, key, object));
        else if (access == Access::Function)
            sources.push_back(provenance.function(object));
        else if (access == Access::HandledException)
            sources.push_back(provenance.handled_exception(object));
        else if (access == Access::Pinned)
            sources.push_back(provenance.pinned(object));
        else
            sources.push_back(
                provenance.child(sources.at(static_cast<std::size_t>(parent)), access, key, number, object));
    }
    return sources;
}

/// An expression as nested tuples: ("source", index), (symbol, operand) or (symbol, left, right); numbers are
/// constants.
const Expression* make_expression(Arena& arena, const std::vector<Source*>& sources, PyObject* description) {
    auto* made = arena.make<Expression>();
    if (!PyTuple_Check(description)) {
        made->constant = *Number::of(description);
        made->is_float = made->constant.is_float();
        return made;
    }
    std::string_view word = utf8(PyTuple_GET_ITEM(description, 0));
    if (word == "source") {
        made->op = Expression::Op::Source;
        made->source = sources.at(PyLong_AsSize_t(PyTuple_GET_ITEM(description, 1)));
        made->is_float = PyFloat_CheckExact(made->source->object);
        return made;
    }
    bool is_binary = PyTuple_GET_SIZE(description) == 3;
    auto op = static_cast<int>(Expression::Op::Add);
    auto matches = [&](Expression::Op one) { return symbol(one) == word && takes_two(one) == is_binary; };
    while (op <= static_cast<int>(Expression::Op::Fits) && !matches(static_cast<Expression::Op>(op))) ++op;
    STATOR_CHECK(op <= static_cast<int>(Expression::Op::Fits), "unknown operation " + std::string(word));
    made->op = static_cast<Expression::Op>(op);
    made->left = make_expression(arena, sources, PyTuple_GET_ITEM(description, 1));
    if (is_binary) made->right = make_expression(arena, sources, PyTuple_GET_ITEM(description, 2));
    made->size = 1 + made->left->size + (is_binary ? made->right->size : 0);
    return made;
}

/// Guards as tuples (kind, index of the source, expected, number, index of the other source or -1). For an expression,
/// `expected` is the expression.
std::vector<Guard> make_guards(Arena& arena, const std::vector<Source*>& sources, PyObject* descriptions) {
    std::vector<Guard> guards;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(descriptions); ++i) {
        PyObject *name, *expected;
        int source, other;
        long long number;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(descriptions, i), "OiOLi", &name, &source, &expected, &number, &other))
            throw PythonError();
        if (utf8(name) == "Expression") {
            guards.push_back({.kind = GuardKind::Expression,
                              .source = sources.at(static_cast<std::size_t>(source)),
                              .expression = make_expression(arena, sources, expected)});
            continue;
        }
        guards.push_back({named<GuardKind>(kGuardNames, name), sources.at(static_cast<std::size_t>(source)),
                          object_or_null(expected), number,
                          other < 0 ? nullptr : sources.at(static_cast<std::size_t>(other))});
    }
    return guards;
}

std::vector<Source*> chosen(const std::vector<Source*>& sources, PyObject* indices) {
    std::vector<Source*> result;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(indices); ++i)
        result.push_back(sources.at(PyLong_AsSize_t(PyList_GET_ITEM(indices, i))));
    return result;
}

PyObject* program_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *sources, *guards, *fetched, *distinct;
    if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyList_Type, &sources, &PyList_Type, &guards, &PyList_Type, &fetched,
                          &PyList_Type, &distinct))
        return nullptr;
    return at_boundary([&] {
        // As after a trace: everything that the program was built from is gone when it is used.
        Arena arena;
        Provenance provenance(arena);
        auto all = make_sources(provenance, sources);
        auto list = make_guards(arena, all, guards);
        auto wanted = chosen(all, fetched), different = chosen(all, distinct);
        auto start = std::chrono::steady_clock::now();
        auto program = std::make_unique<GuardProgram>(list, wanted, different);
        std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
        Ref<> self = checked(type->tp_alloc(type, 0));
        as_program(self.get())->program = program.release();
        as_program(self.get())->build_nanoseconds = elapsed.count();
        return self.release();
    });
}

int program_clear(PyObject* self) {
    delete std::exchange(as_program(self)->program, nullptr);
    return 0;
}

void program_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    PyTypeObject* type = Py_TYPE(self);
    program_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

int program_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    int result = 0;
    if (as_program(self)->program != nullptr)
        program_of(self).visit([&](PyObject* object) {
            if (result == 0) result = visit(object, arg);
        });
    return result;
}

/// The frame as tests pass it: a list of slots and a function, then optionally a number of repetitions.
struct Call {
    explicit Call(PyObject* args) {
        PyObject* list;
        if (!PyArg_ParseTuple(args, "O!O|n", &PyList_Type, &list, &function, &repeat)) throw PythonError();
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
            slots.push_back(object_or_null(PyList_GET_ITEM(list, i)));
    }
    std::vector<PyObject*> slots;
    PyObject* function;
    Py_ssize_t repeat = 1;
};

PyObject* program_check(PyObject* self, PyObject* args) {
    return at_boundary([&] {
        Call call(args);
        return PyBool_FromLong(program_of(self).check(call.slots.data(), call.function));
    });
}

PyObject* program_explain(PyObject* self, PyObject* args) {
    return at_boundary([&] {
        Call call(args);
        return PyUnicode_FromString(program_of(self).explain(call.slots.data(), call.function).c_str());
    });
}

PyObject* list_of_text(const std::vector<std::string>& lines) {
    Ref<> list = checked(PyList_New(0));
    for (const std::string& line : lines)
        checked(PyList_Append(list.get(), checked(PyUnicode_FromString(line.c_str())).get()));
    return list.release();
}

PyObject* program_changed_numbers(PyObject* self, PyObject* args) {
    return at_boundary([&] {
        Call call(args);
        return list_of_text(program_of(self).changed_numbers(call.slots.data(), call.function));
    });
}

PyObject* program_count_steps(PyObject* self, PyObject* args) {
    return at_boundary([&] {
        Call call(args);
        return PyLong_FromSize_t(program_of(self).count_steps(call.slots.data(), call.function));
    });
}

PyObject* program_nanoseconds(PyObject* self, PyObject* args) {
    return at_boundary([&] {
        Call call(args);
        bool good = true;
        auto start = std::chrono::steady_clock::now();
        for (Py_ssize_t i = 0; i < call.repeat; ++i) good &= program_of(self).check(call.slots.data(), call.function);
        std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
        STATOR_CHECK(good, "only successful checks are measured");
        return PyFloat_FromDouble(elapsed.count() / static_cast<double>(call.repeat));
    });
}

PyObject* program_print(PyObject* self, PyObject*) {
    return at_boundary([&] { return list_of_text(program_of(self).print()); });
}

PyObject* program_print_steps(PyObject* self, PyObject*) {
    return at_boundary([&] { return list_of_text(program_of(self).print_steps()); });
}

PyObject* program_print_quick(PyObject* self, PyObject*) {
    return at_boundary([&] { return list_of_text(program_of(self).print_quick()); });
}

PyObject* program_quick_hits(PyObject* self, PyObject*) {
    return PyLong_FromSize_t(program_of(self).quick_hits());
}

PyObject* program_watched_hits(PyObject* self, PyObject*) {
    return PyLong_FromSize_t(program_of(self).watched_hits());
}

PyObject* program_fetched(PyObject* self, PyObject*) {
    return at_boundary([&] {
        Ref<> list = checked(PyList_New(0));
        for (PyObject* object : program_of(self).fetched()) checked(PyList_Append(list.get(), object));
        return list.release();
    });
}

PyObject* program_held(PyObject* self, PyObject*) {
    return at_boundary([&] {
        Ref<> list = checked(PyList_New(0));
        program_of(self).visit([&](PyObject* object) { checked(PyList_Append(list.get(), object)); });
        return list.release();
    });
}

PyObject* program_build_nanoseconds(PyObject* self, PyObject*) {
    return PyFloat_FromDouble(as_program(self)->build_nanoseconds);
}

Py_ssize_t program_size(PyObject* self) {
    return static_cast<Py_ssize_t>(program_of(self).size());
}

PyMethodDef kMethods[] = {
    {"check", program_check, METH_VARARGS, "check(slots, function) -> bool"},
    {"explain", program_explain, METH_VARARGS, "explain(slots, function) -> str"},
    {"changed_numbers", program_changed_numbers, METH_VARARGS, "changed_numbers(slots, function) -> list[str]"},
    {"count_steps", program_count_steps, METH_VARARGS, "count_steps(slots, function) -> int"},
    {"nanoseconds", program_nanoseconds, METH_VARARGS, "nanoseconds(slots, function, repeat) of a check"},
    {"print", program_print, METH_NOARGS, "one line a guard"},
    {"print_steps", program_print_steps, METH_NOARGS, "one line a step"},
    {"print_quick", program_print_quick, METH_NOARGS, "one line a comparison of the quick check"},
    {"quick_hits", program_quick_hits, METH_NOARGS, "how many checks the present quick check has answered"},
    {"watched_hits", program_watched_hits, METH_NOARGS, "how many of them read no version of a dict"},
    {"fetched", program_fetched, METH_NOARGS, "what the last check fetched"},
    {"held", program_held, METH_NOARGS, "every reference that the program owns"},
    {"build_nanoseconds", program_build_nanoseconds, METH_NOARGS, "how long building took"},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot kSlots[] = {{Py_tp_new, reinterpret_cast<void*>(program_new)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(program_dealloc)},
                        {Py_tp_traverse, reinterpret_cast<void*>(program_traverse)},
                        {Py_tp_clear, reinterpret_cast<void*>(program_clear)},
                        {Py_tp_methods, kMethods},
                        {Py_sq_length, reinterpret_cast<void*>(program_size)},
                        {0, nullptr}};
PyType_Spec kSpec = {"stator._testing.GuardProgram", sizeof(ProgramObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                     kSlots};

}  // namespace

bool bind_guard(PyObject* module) {
    Ref<> type = Ref<>::steal(PyType_FromSpec(&kSpec));
    return type && PyModule_AddObjectRef(module, "GuardProgram", type.get()) == 0;
}

}  // namespace stator

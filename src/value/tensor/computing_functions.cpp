#include "value/tensor/computing_functions.h"

#include <algorithm>
#include <array>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/kinds/class.h"
#include "value/kinds/dict.h"
#include "value/kinds/python_module.h"
#include "value/tensor/hooks.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer, const ComputingFunction& how, const std::string& why) {
    tracer.break_graph(BreakKind::UnsupportedTensor, how.name + " " + why);
}

bool is_builtin_that_computes(PyObject* object) {
    static const std::array known = {imported("builtins", "len"),        imported("builtins", "tuple"),
                                     imported("builtins", "isinstance"), imported("builtins", "int"),
                                     imported("builtins", "float"),      imported("builtins", "bool")};
    return std::ranges::find(known, object) != known.end();
}

bool is_module_of_torch(const Value* value) {
    const auto* module = cast<PythonModuleValue>(value);
    if (module == nullptr) return false;
    const char* name = PyModule_GetName(module->held);
    if (name == nullptr) PyErr_Clear();
    return name != nullptr && (std::string_view(name) == "torch" || std::string_view(name).starts_with("torch."));
}

bool is_autograd_function(const Value* value) {
    static PyTypeObject* const base = imported_class("torch.autograd.function", "Function");
    const auto* held = cast<ClassValue>(value);
    return held != nullptr && PyType_IsSubtype(held->held, base) != 0;
}

/// What a variable of the function holds may be any number or string, PyTorch itself, and functions that only compute.
void check_variable(Tracer& tracer, const ComputingFunction& how, Value* value, PyObject* name) {
    if (value != nullptr) {
        tracer.realize(value);
        if (is_module_of_torch(value)) return;
        if (how.applied != nullptr && is_autograd_function(value)) {
            if (std::ranges::find(*how.applied, value) == how.applied->end()) how.applied->push_back(value);
            return;
        }
        // (A compiler traces the function when it compiles, and not in the backward pass.)
        const bool may_have_changed = how.is_called_later && tracer.run_by() == Tracer::RunBy::Compiler;
        if (value->source != nullptr && value->object() != nullptr && is_builtin_that_computes(value->object())) {
            tracer.guard({GuardKind::Identity, value->source, value->object()});
            return;
        }
        if (!may_have_changed && is_immutable_constant(tracer, value)) return;
    }
    refuse(tracer, how, "reads " + std::string(utf8(name)) + ", which is no constant");
}

/// A global of the function. The hook reads the real one, which must be as the trace sees it.
Value* global_of(Tracer& tracer, const ComputingFunction& how, const FunctionValue* function, PyObject* name) {
    for (PyObject* dict : {function->globals, function->builtins}) {
        if (dict == nullptr || !PyDict_CheckExact(dict)) refuse(tracer, how, "has globals that are not a plain dict");
        auto* names = static_cast<DictValue*>(tracer.outside(tracer.provenance().pinned(dict), dict));
        tracer.realize(names);
        if (names->changed) refuse(tracer, how, "reads globals, and the program has assigned to some");
        if (Value* found = names->find(tracer, name)) return found;
    }
    return nullptr;
}

/// The closure variables that it reads, by name.
void check_cells(Tracer& tracer, const ComputingFunction& how, FunctionValue* function, PyObject* cells) {
    Ref<> free = checked(PyCode_GetFreevars(function->code));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(free.get()); ++i) {
        PyObject* name = PyTuple_GET_ITEM(free.get(), i);
        if (checked(PySequence_Contains(cells, name)) == 0) continue;
        CellValue* cell = function->closure_cell(tracer, static_cast<std::size_t>(i));
        Value* held = cell->get(tracer);
        const bool is_as_found = held != nullptr && held->source != nullptr && held->source->parent == cell->source;
        if (cell->source != nullptr && !is_as_found)
            refuse(tracer, how, "reads " + std::string(utf8(name)) + ", which the program has changed");
        check_variable(tracer, how, held, name);
    }
}

Ref<> reads_of(const FunctionValue* function, const ComputingFunction& how) {
    static PyObject* const reads_of = imported("stator.computing", "reads_of");
    auto* code = reinterpret_cast<PyObject*>(function->code);
    if (!how.has_context) return checked(PyObject_CallOneArg(reads_of, code));
    Ref<> names = checked(PyObject_GetAttrString(code, "co_varnames"));
    PyObject* context = PyTuple_GET_SIZE(names.get()) == 0 ? Py_None : PyTuple_GET_ITEM(names.get(), 0);
    return checked(PyObject_CallFunctionObjArgs(reads_of, code, context, nullptr));
}

}  // namespace

void expect_only_computes(Tracer& tracer, FunctionValue* function, const ComputingFunction& how) {
    Ref<> reads = reads_of(function, how);
    if (PyUnicode_Check(reads.get())) refuse(tracer, how, std::string(utf8(reads.get())));
    PyObject* globals = PyTuple_GET_ITEM(reads.get(), 0);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(globals); ++i) {
        PyObject* name = tracer.keep(Ref<>::share(PyTuple_GET_ITEM(globals, i)));
        check_variable(tracer, how, global_of(tracer, how, function, name), name);
    }
    check_cells(tracer, how, function, PyTuple_GET_ITEM(reads.get(), 1));
}

}  // namespace stator

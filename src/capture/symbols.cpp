#include "capture/symbols.h"

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"

namespace stator {

namespace {

template <class Take>
void for_each_item(PyObject* list, const Take& take) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) take(PyList_GET_ITEM(list, i));
}

}  // namespace

void describe_symbols(Borrowed<> cell, const Trace& trace) {
    std::vector<graph::KnownSymbol> symbols;
    for (const Symbol& symbol : trace.symbols)
        symbols.push_back(
            {symbol.variable, symbol.resolved, symbol.range, symbol.marked.has_value(), symbol.hint_override});
    std::vector<graph::UnbackedInput> unbacked;
    for (const UnbackedSymbol& symbol : trace.unbacked)
        if (symbol.source != nullptr)
            unbacked.push_back({symbol.number, symbol.source, symbol.range, symbol.mark.hint_override});
    std::vector<const Expression*> relations;
    for (const Relation& relation : trace.relations) relations.push_back(relation.condition);
    graph::describe_symbols(cell, symbols, relations, unbacked);
}

void raise_constraint_violation(const std::string& text) {
    Ref<> errors = checked(PyImport_ImportModule("stator.errors"));
    checked(PyObject_CallMethod(errors.get(), "raise_constraint_violation", "s", text.c_str()));
    PyErr_SetString(PyExc_RuntimeError, "stator.errors.raise_constraint_violation did not raise");
    throw PythonError();
}

BackendAssumptions assumptions_of(Borrowed<> module) {
    BackendAssumptions assumptions;
    Ref<> state = checked(PyObject_GetAttr(module, interned("__dict__")));
    auto taken = [&](const char* name) {
        PyObject* found = PyDict_GetItemWithError(state.get(), interned(name));
        return found == nullptr ? checked(PyList_New(0)) : checked(PySequence_List(found));
    };
    for_each_item(taken("_stator_conditions").get(), [&](PyObject* item) {
        BackendCondition condition;
        condition.text = utf8(PyTuple_GET_ITEM(item, 0));
        for_each_item(PyTuple_GET_ITEM(item, 1),
                      [&](PyObject* part) { condition.terms.push_back(graph::term_of(part)); });
        if (PyObject* function = PyTuple_GET_ITEM(item, 2); function != Py_None)
            condition.function = Ref<>::share(function);
        assumptions.conditions.push_back(std::move(condition));
    });
    for_each_item(taken("_stator_rejected").get(),
                  [&](PyObject* number) { assumptions.rejected.push_back(PyLong_AsSize_t(number)); });
    if (PyObject* failure = PyDict_GetItemWithError(state.get(), interned("_stator_failure")))
        assumptions.failure = utf8(failure);
    for_each_item(taken("_stator_fixed").get(),
                  [&](PyObject* number) { assumptions.fixed.push_back(PyLong_AsSize_t(number)); });
    return assumptions;
}

}  // namespace stator

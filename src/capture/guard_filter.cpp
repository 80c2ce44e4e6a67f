#include "capture/guard_filter.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/known.h"

namespace stator {

namespace {

constexpr const char* kNames[] = {
#define GUARD_KIND(name) #name,
#include "guard/guard_kinds.def"
#undef GUARD_KIND
};

/// Whether the source, or one that it is read from, satisfies the test.
template <class Test>
bool is_below(const Source* source, Test test) {
    for (; source != nullptr; source = source->parent)
        if (test(*source)) return true;
    return false;
}

bool is_global(const Source& source) {
    if (source.access == Access::Globals) return true;
    const bool is_namespace =
        source.object != nullptr && PyDict_CheckExact(source.object) && PyDict_GetItemString(source.object, "__name__");
    return source.access == Access::Pinned && source.object != nullptr &&
           (is_namespace || PyModule_Check(source.object));
}

bool is_module(const Source& source) {
    return source.object != nullptr && PyObject_TypeCheck(source.object, torch_room::known().module_class);
}

/// A module of PyTorch itself.
bool is_builtin_module(const Source& source) {
    if (!is_module(source)) return false;
    Ref<> home = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(source.object)), "__module__"));
    return PyUnicode_Check(home.get()) && utf8(home).starts_with("torch.nn.");
}

/// What `stator.guard_filter` makes an entry of for the user's function.
Ref<> described(const Guard& guard) {
    const Source* source = guard.source;
    PyObject* object = source->object;
    auto as_bool = [](bool truth) { return truth ? Py_True : Py_False; };
    return checked(Py_BuildValue("(ssOOOOO)", print(*source).c_str(), kNames[static_cast<int>(guard.kind)],
                                 as_bool(object != nullptr), object == nullptr ? Py_None : object,
                                 as_bool(is_below(source, is_global)), as_bool(is_below(source, is_module)),
                                 as_bool(is_below(source, is_builtin_module))));
}

std::vector<bool> asked(std::span<const Guard> guards, Borrowed<> filter) {
    static PyObject* const ask = imported("stator.guard_filter", "ask");
    Ref<> entries = checked(PyList_New(0));
    for (const Guard& guard : guards) checked(PyList_Append(entries.get(), described(guard).get()));
    Ref<> answers = checked(PyObject_CallFunctionObjArgs(ask, filter.get(), entries.get(), nullptr));
    std::vector<bool> kept;
    for (std::size_t i = 0; i < guards.size(); ++i)
        kept.push_back(PyList_GET_ITEM(answers.get(), static_cast<Py_ssize_t>(i)) == Py_True);
    return kept;
}

}  // namespace

std::vector<Guard> filtered(std::span<const Guard> guards, std::span<Source* const> fetched, Borrowed<> filter) {
    std::vector<bool> kept = asked(guards, filter);
    // What a source is read from has to be what it was: reads are not checked one by one.
    std::unordered_set<const Source*> read_from;
    auto note = [&](const Source* source) {
        for (source = source->parent; source != nullptr; source = source->parent) read_from.insert(source);
    };
    for (Source* source : fetched) note(source);
    for (std::size_t i = 0; i < guards.size(); ++i) {
        // A condition on numbers reads all of them, and the graph may rely on it.
        if (guards[i].kind == GuardKind::Expression || guards[i].source->access == Access::Function) kept[i] = true;
        if (!kept[i]) continue;
        note(guards[i].source);
        if (guards[i].other != nullptr) note(guards[i].other);
        if (guards[i].expression == nullptr) continue;
        for (const Term& term : terms_of(*guards[i].expression))
            if (term.source != nullptr) note(term.source);
    }
    // A guard that is needed to read a kept one is itself read from somewhere; it lies on the same path.
    std::vector<Guard> result;
    for (std::size_t i = 0; i < guards.size(); ++i)
        if (kept[i] || read_from.contains(guards[i].source)) result.push_back(guards[i]);
    return result;
}

}  // namespace stator

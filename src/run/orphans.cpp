#include "run/orphans.h"

#include <algorithm>
#include <utility>

#include "base/names.h"
#include "cpython/finalizing.h"

namespace stator::orphans {

namespace {

struct Orphan {
    std::unique_ptr<EntryCache> cache;
    Py_ssize_t own_references;  // of the cache to the code of its function
    Ref<> subject;              // a weak reference to what was compiled, if it has to be freed with that
};

/// The last left one first.
std::vector<Orphan>& all() {
    static auto* const orphans = new std::vector<Orphan>();
    return *orphans;
}

constexpr std::size_t kMost = 32;

Py_ssize_t count_references_to_code(const EntryCache& cache) {
    auto* const code = reinterpret_cast<PyObject*>(cache.use().code);
    Py_ssize_t count = 0;
    for (const Shared<Entry>& entry : cache.entries()) {
        count += reinterpret_cast<PyObject*>(entry->code.get()) == code ? 1 : 0;
        entry->visit([&](PyObject* object) { count += object == code ? 1 : 0; });
    }
    return count;
}

/// Whether something besides the cache keeps the code alive: if not, no one can compile it again.
bool is_code_in_use(const Orphan& orphan) {
    return Py_REFCNT(reinterpret_cast<PyObject*>(orphan.cache->use().code)) > orphan.own_references;
}

bool is_subject_freed(const Orphan& orphan) {
    return orphan.subject && PyWeakref_GET_OBJECT(orphan.subject.get()) == Py_None;
}

/// `globals` may be those of a module that was freed.
bool is_of_imported_module(PyObject* globals) {
    PyObject *name, *module;
    for (Py_ssize_t position = 0; PyDict_Next(PyImport_GetModuleDict(), &position, &name, &module);)
        if (PyModule_Check(module) && PyModule_GetDict(module) == globals) return true;
    return false;
}

/// Whether its module leads to it by its name. A class that was defined in a function, or replaced by another one of
/// its name, is an object of the program like any other: the program frees it, with all that its methods close over.
bool is_importable(PyTypeObject* type) {
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return true;
    Ref<> name = Ref<>::steal(PyType_GetQualName(type));
    Ref<> parts = name ? Ref<>::steal(PyUnicode_Split(name.get(), interned("."), -1)) : Ref<>();
    PyObject* module_name = PyDict_GetItem(type->tp_dict, interned("__module__"));
    PyObject* found = module_name ? PyDict_GetItem(PyImport_GetModuleDict(), module_name) : nullptr;
    for (Py_ssize_t i = 0; found != nullptr && parts && i < PyList_GET_SIZE(parts.get()); ++i) {
        PyObject* names = PyModule_Check(found) ? PyModule_GetDict(found)
                          : PyType_Check(found) ? reinterpret_cast<PyTypeObject*>(found)->tp_dict
                                                : nullptr;
        found = names ? PyDict_GetItem(names, PyList_GET_ITEM(parts.get(), i)) : nullptr;
    }
    PyErr_Clear();
    return found == reinterpret_cast<PyObject*>(type);
}

bool keeps_classes_of_the_program(const EntryCache& cache) {
    bool found = false;
    for (const Shared<Entry>& entry : cache.entries())
        entry->visit([&](PyObject* object) {
            found = found || (PyType_Check(object) && !is_importable(reinterpret_cast<PyTypeObject*>(object)));
        });
    return found;
}

bool is_of_use(const EntryCache& cache) {
    const CompileOptions& options = cache.options();
    // Attributes of a graph module are parameters of the program.
    if (!options.backend || options.registers_attributes || options.is_isolated || cache.use().code == nullptr ||
        !is_of_imported_module(cache.use().globals))
        return false;
    const std::vector<Shared<Entry>> entries = cache.entries();
    return std::ranges::any_of(entries, [](const Shared<Entry>& entry) { return entry->is_captured; });
}

/// Takes out the oldest ones if there are too many, and those whose code nobody else keeps. Freeing them runs any code.
[[nodiscard]] std::vector<Orphan> take_useless() {
    std::vector<Orphan> useless, left;
    for (Orphan& orphan : all())
        (left.size() < kMost && is_code_in_use(orphan) && !is_subject_freed(orphan) ? left : useless)
            .push_back(std::move(orphan));
    all() = std::move(left);
    return useless;
}

/// The callback of weak references to subjects.
PyObject* free_useless(PyObject*, PyObject*) {
    { std::vector<Orphan> useless = take_useless(); }
    Py_RETURN_NONE;
}

PyMethodDef kFreeUseless = {"free_useless", free_useless, METH_O, nullptr};

/// A weak reference that frees the orphan with the subject; empty if the subject has none.
Ref<> watch(PyObject* subject) {
    Ref<> callback = Ref<>::steal(PyCFunction_New(&kFreeUseless, nullptr));
    Ref<> weak = callback ? Ref<>::steal(PyWeakref_NewRef(subject, callback.get())) : Ref<>();
    PyErr_Clear();
    return weak;
}

}  // namespace

void leave(std::unique_ptr<EntryCache> cache, Ref<> subject) {
    // Nobody compiles anything again, and there is no dict of modules any more.
    if (cpython::is_finalizing()) return;
    // An object may be freed while an exception is raised.
    Ref<> type, value, traceback;
    PyErr_Fetch(type.out(), value.out(), traceback.out());
    if (is_of_use(*cache)) {
        Ref<> watched;
        if (keeps_classes_of_the_program(*cache)) {
            watched = watch(subject.get());
            if (!watched) cache = nullptr;
        }
        if (cache) {
            const Py_ssize_t own_references = count_references_to_code(*cache);
            all().insert(all().begin(), {std::move(cache), own_references, std::move(watched)});
        }
    }
    PyErr_Restore(type.release(), value.release(), traceback.release());
    subject = {};
    std::vector<Orphan> useless = take_useless();
}

bool take_over(EntryCache& cache, cpython::Frame* frame, const Ref<>& forced_backend) {
    if (cache.options().is_isolated) return false;
    // Comparing backends may run any code, which may change the list: candidates are taken out of it meanwhile.
    std::vector<Orphan> candidates, others;
    for (Orphan& orphan : all())
        (orphan.cache->use() == cache.use() ? candidates : others).push_back(std::move(orphan));
    all() = std::move(others);
    // Functions made by one `def` may differ in the variables that they close over, and then don't share a limit.
    const bool is_closure = cpython::code_of(frame)->co_nfreevars > 0;
    auto found = std::ranges::find_if(candidates, [&](const Orphan& one) {
        if (!cache.compiles_like(*one.cache)) return false;
        cache.learn_from(*one.cache);
        return !is_closure || one.cache->has_entry_for(frame, forced_backend);
    });
    const bool is_found = found != candidates.end();
    if (is_found) {
        cache.take_over(*found->cache);
        candidates.erase(found);
    }
    for (Orphan& orphan : candidates) all().push_back(std::move(orphan));
    return is_found;
}

void clear() {
    auto freed = std::exchange(all(), {});
}

}  // namespace stator::orphans

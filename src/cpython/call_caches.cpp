#include "cpython/call_caches.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/python_error.h"

namespace stator::cpython {

namespace {

/// The dict of results, found with the traverse function of the garbage collector.
Ref<> dict_in(PyObject* cached) {
    struct Search {
        PyObject* attributes;
        PyObject* found = nullptr;
    };
    Ref<> attributes = checked(PyObject_GenericGetDict(cached, nullptr));
    Search search{attributes.get()};
    auto visit = [](PyObject* part, void* argument) {
        auto* search = static_cast<Search*>(argument);
        if (search->found == nullptr && PyDict_CheckExact(part) && part != search->attributes) search->found = part;
        return 0;
    };
    Py_TYPE(cached)->tp_traverse(cached, visit, &search);
    return Ref<>::share(search.found);
}

/// Where an object of C code holds a reference to `wanted`; nothing if that is not in one place.
std::optional<Py_ssize_t> offset_of(PyObject* object, PyObject* wanted) {
    std::optional<Py_ssize_t> found;
    const Py_ssize_t size = Py_TYPE(object)->tp_basicsize;
    for (auto at = static_cast<Py_ssize_t>(sizeof(PyObject)); at + static_cast<Py_ssize_t>(sizeof(void*)) <= size;
         at += static_cast<Py_ssize_t>(sizeof(void*))) {
        if (*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + at) != wanted) continue;
        if (found) return std::nullopt;
        found = at;
    }
    return found;
}

PyObject*& at(PyObject* object, Py_ssize_t offset) {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

PyObject* probe_call(PyObject* self, PyObject*, PyObject*) {
    return Py_NewRef(self);
}

/// Where the C objects keep what is not public, found by trying a cache with known contents.
struct Layout {
    PyTypeObject* cached_class = nullptr;
    PyTypeObject* link_class = nullptr;
    Py_ssize_t function = 0;           // in the cached function
    Py_ssize_t results = 0;            // in the cached function
    Py_ssize_t result = 0;             // in a link of a bounded cache
    PyObject* keyword_mark = nullptr;  // in keys, between positional and keyword arguments

    static const Layout* known() {
        static const std::optional<Layout> layout = find();
        return layout ? &*layout : nullptr;
    }

  private:
    static std::optional<Layout> find() {
        static PyMethodDef definition = {"probe", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(probe_call)),
                                         METH_VARARGS | METH_KEYWORDS, nullptr};
        Ref<> result = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
        Ref<> function = checked(PyCFunction_New(&definition, result.get()));
        Ref<> functools = checked(PyImport_ImportModule("functools"));
        Ref<> decorator = checked(PyObject_CallMethod(functools.get(), "lru_cache", "i", 4));
        Ref<> cached = checked(PyObject_CallOneArg(decorator.get(), function.get()));
        Ref<> keywords = checked(PyDict_New());
        checked(PyDict_SetItemString(keywords.get(), "name", Py_None));
        Ref<> nothing = checked(PyTuple_New(0));
        checked(PyObject_Call(cached.get(), nothing.get(), keywords.get()));
        Ref<> dict = dict_in(cached.get());
        PyObject *key = nullptr, *link = nullptr;
        Py_ssize_t position = 0;
        const bool is_filled = dict && PyDict_Next(dict.get(), &position, &key, &link) != 0;
        if (!is_filled || !PyTuple_CheckExact(key) || PyTuple_GET_SIZE(key) != 3) return std::nullopt;
        const auto of_function = offset_of(cached.get(), function.get());
        const auto of_results = offset_of(cached.get(), dict.get());
        const auto of_result = offset_of(link, result.get());
        if (!of_function || !of_results || !of_result) return std::nullopt;
        return Layout{Py_TYPE(cached.get()), Py_TYPE(link), *of_function,
                      *of_results,           *of_result,    Py_NewRef(PyTuple_GET_ITEM(key, 0))};
    }
};

}  // namespace

Borrowed<> call_cache_dict(PyObject* cached) {
    const Layout* layout = Layout::known();
    if (layout == nullptr || !Py_IS_TYPE(cached, layout->cached_class)) return nullptr;
    return at(cached, layout->results);
}

Borrowed<> function_of_call_cache(PyObject* cached) {
    return at(cached, Layout::known()->function);
}

Ref<> call_cache_key(PyObject* arguments, PyObject* keywords, bool is_typed) {
    const Py_ssize_t named = keywords == nullptr ? 0 : PyDict_GET_SIZE(keywords);
    if (!is_typed && named == 0) {
        if (PyTuple_GET_SIZE(arguments) != 1) return Ref<>::share(arguments);
        PyObject* only = PyTuple_GET_ITEM(arguments, 0);
        return Ref<>::share(PyUnicode_CheckExact(only) || PyLong_CheckExact(only) ? only : arguments);
    }
    Ref<> key = checked(PySequence_List(arguments));
    auto append = [&](PyObject* part) { checked(PyList_Append(key.get(), part)); };
    PyObject *name = nullptr, *value = nullptr;
    if (named != 0) {
        append(Layout::known()->keyword_mark);
        for (Py_ssize_t position = 0; PyDict_Next(keywords, &position, &name, &value) != 0;) {
            append(name);
            append(value);
        }
    }
    if (is_typed) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i)
            append(reinterpret_cast<PyObject*>(Py_TYPE(PyTuple_GET_ITEM(arguments, i))));
        if (named != 0)
            for (Py_ssize_t position = 0; PyDict_Next(keywords, &position, &name, &value) != 0;)
                append(reinterpret_cast<PyObject*>(Py_TYPE(value)));
    }
    return checked(PyList_AsTuple(key.get()));
}

PyObject* cached_call_result(PyObject* cached, PyObject* key, Py_hash_t hash) {
    PyObject* dict = call_cache_dict(cached);
    if (dict == nullptr) return nullptr;
    PyObject* held = _PyDict_GetItem_KnownHash(dict, key, hash);
    if (held == nullptr && PyErr_Occurred() != nullptr) throw PythonError();
    if (held == nullptr || !Py_IS_TYPE(held, Layout::known()->link_class)) return held;
    return at(held, Layout::known()->result);
}

namespace {

/// While a call is noted, this stands in for the function that is cached.
struct StandIn {
    PyObject* cached;
    PyObject* function;   // that of the program
    PyObject* arguments;  // the tuple with which the call is made
    PyObject* result;
    PyObject* self = nullptr;  // the object of C code that calls this
    bool is_in_place = false;

    void enter() {
        at(cached, Layout::known()->function) = Py_NewRef(self);
        is_in_place = true;
    }
    void leave() {
        if (!std::exchange(is_in_place, false)) return;
        at(cached, Layout::known()->function) = function;
        Py_DECREF(self);
    }
};

constexpr const char* kName = "stator.StandIn";

PyObject* call_stand_in(PyObject* capsule, PyObject* arguments, PyObject* keywords) {
    auto* stand_in = static_cast<StandIn*>(PyCapsule_GetPointer(capsule, kName));
    if (stand_in->is_in_place && arguments == stand_in->arguments) {
        stand_in->leave();
        return Py_NewRef(stand_in->result);
    }
    // Another thread calls the cached function while the key of our call is hashed. This object has to outlive its
    // call.
    Py_INCREF(stand_in->self);
    return PyObject_Call(stand_in->function, arguments, keywords);
}

void free_stand_in(PyObject* capsule) {
    auto* stand_in = static_cast<StandIn*>(PyCapsule_GetPointer(capsule, kName));
    Py_DECREF(stand_in->cached);
    Py_DECREF(stand_in->function);
    Py_DECREF(stand_in->arguments);
    Py_DECREF(stand_in->result);
    delete stand_in;
}

}  // namespace

void note_cached_call(PyObject* cached, PyObject* arguments, PyObject* keywords, PyObject* result) {
    static PyMethodDef definition = {"cached", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_stand_in)),
                                     METH_VARARGS | METH_KEYWORDS, nullptr};
    PyObject* function = at(cached, Layout::known()->function);
    // Another thread notes a call of this function, and waits for the hash of a key.
    if (PyCFunction_Check(function) && reinterpret_cast<PyCFunctionObject*>(function)->m_ml == &definition) return;
    auto stand_in = std::make_unique<StandIn>(
        StandIn{Py_NewRef(cached), Py_NewRef(function), Py_NewRef(arguments), Py_NewRef(result)});
    Ref<> capsule = checked(PyCapsule_New(stand_in.get(), kName, free_stand_in));
    StandIn* held = stand_in.release();
    Ref<> self = checked(PyCFunction_New(&definition, capsule.get()));
    held->self = self.get();
    held->enter();
    Ref<> answer = Ref<>::steal(PyObject_Call(cached, arguments, keywords));
    held->leave();
    if (!answer) throw PythonError();
}

}  // namespace stator::cpython

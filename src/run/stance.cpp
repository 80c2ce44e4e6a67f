#include "run/stance.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/versions.h"

namespace stator {

namespace {

/// A dict in which a name may be rebound, and its version when it was last read.
struct Watched {
    PyObject* dict = nullptr;
    std::uint64_t version = 0;

    /// Whether it is the same dict, unchanged since the last call.
    bool is_unchanged(PyObject* now) {
        std::uint64_t version_now = cpython::dict_version(now);
        bool is_same = dict == now && version != 0 && version == version_now;
        dict = now;
        version = version_now;
        return is_same;
    }
};

/// The globals of the module that stores the stance; null until it is imported. Borrowed: modules are never freed.
PyObject* find_globals() {
    static Watched modules;
    if (modules.is_unchanged(PyImport_GetModuleDict())) return nullptr;
    PyObject* module = PyDict_GetItemWithError(modules.dict, interned("torch._dynamo.eval_frame"));
    if (module == nullptr && PyErr_Occurred() != nullptr) PyErr_Clear();
    return module != nullptr && PyModule_Check(module) ? Py_XNewRef(PyModule_GetDict(module)) : nullptr;
}

Stance::Kind kind_of(PyObject* name) {
    using enum Stance::Kind;
    static constexpr std::array<std::pair<std::string_view, Stance::Kind>, 6> kKinds{{
        {"default", Default},
        {"force_eager", ForceEager},
        {"eager_on_recompile", EagerOnRecompile},
        {"fail_on_recompile", FailOnRecompile},
        {"eager_then_compile", EagerThenCompile},
        {"aot_eager_then_compile", AotEagerThenCompile},
    }};
    if (PyUnicode_Check(name))
        for (const auto& [known, kind] : kKinds)
            if (utf8(name) == known) return kind;
    PyErr_Format(PyExc_RuntimeError,
                 "invalid torch.compile stance %R; the documentation of torch.compiler.set_stance lists the valid ones",
                 name);
    throw PythonError();
}

Stance read_stance(PyObject* globals) {
    PyObject* set = PyDict_GetItemWithError(globals, interned("_stance"));
    if (set == nullptr) {
        PyErr_Clear();
        return {};
    }
    Ref<> stance = Ref<>::share(set);
    Stance found{.kind = kind_of(checked(PyObject_GetAttr(stance.get(), interned("stance"))).get())};
    Ref<> skips = Ref<>::steal(PyObject_GetAttr(stance.get(), interned("skip_guard_eval_unsafe")));
    PyErr_Clear();  // a version of PyTorch without it
    found.has_all_graphs = skips && PyObject_IsTrue(skips.get()) == 1;
    Ref<> backend = checked(PyObject_GetAttr(stance.get(), interned("backend")));
    if (backend.get() == Py_None) return found;
    // Entries are distinguished by the backend object; equal names have to be one object.
    PyObject* kept = backend.release();
    if (PyUnicode_CheckExact(kept)) PyUnicode_InternInPlace(&kept);
    found.backend = Ref<>::steal(kept);
    return found;
}

}  // namespace

const Stance& current_stance() {
    static auto* const current = new Stance();
    static PyObject* globals = nullptr;
    static Watched watched;
    if (globals == nullptr && (globals = find_globals()) == nullptr) return *current;
    if (!watched.is_unchanged(globals)) {
        watched.version = 0;  // if reading fails, it is read again
        Stance found = read_stance(globals);
        watched.version = cpython::dict_version(globals);
        *current = std::move(found);
    }
    return *current;
}

}  // namespace stator

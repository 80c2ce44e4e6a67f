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

/// Whether the module that stores the stance is there. Looked at again when a module was imported.
bool has_dynamo() {
    static Watched modules;
    if (modules.is_unchanged(PyImport_GetModuleDict())) return false;
    PyObject* module = PyDict_GetItemWithError(modules.dict, interned("torch._dynamo.eval_frame"));
    if (module == nullptr && PyErr_Occurred() != nullptr) PyErr_Clear();
    return module != nullptr && PyObject_HasAttr(module, interned("_set_stance"));
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

Stance read_stance(PyObject* stance) {
    Stance found{.kind = kind_of(checked(PyObject_GetAttr(stance, interned("stance"))).get())};
    Ref<> skips = Ref<>::steal(PyObject_GetAttr(stance, interned("skip_guard_eval_unsafe")));
    PyErr_Clear();  // a version of PyTorch without it
    found.has_all_graphs = skips && PyObject_IsTrue(skips.get()) == 1;
    Ref<> backend = checked(PyObject_GetAttr(stance, interned("backend")));
    if (backend.get() == Py_None) return found;
    // Entries are distinguished by the backend object; equal names have to be one object.
    PyObject* kept = backend.release();
    if (PyUnicode_CheckExact(kept)) PyUnicode_InternInPlace(&kept);
    found.backend = Ref<>::steal(kept);
    return found;
}

/// A stance of torch._dynamo, read when a compiled function is called: the program may have set one that there is not.
struct Followed {
    Ref<> object;
    bool is_read = false;
    Stance stance;

    const Stance& read() {
        if (is_read) return stance;
        stance = read_stance(object.get());
        is_read = true;
        return stance;
    }
};

/// Of all threads that have set none. Never freed: it is used until the process ends.
Followed& common() {
    static auto* const common = new Followed;
    return *common;
}

/// Set by this thread; null if none. A thread that ends with a stance of its own leaves it behind: its destructor would
/// run without the interpreter's lock.
thread_local Followed* own = nullptr;
/// Of threads with one, and of those that have ended with one. Read first: a thread-local variable takes longer.
int own_stances = 0;

/// python/stator/stances.py learns what is set from now on, and calls `follow_stance` with what is set now.
void begin_to_follow() {
    Ref<> module = checked(PyImport_ImportModule("stator.stances"));
    checked(PyObject_CallMethod(module.get(), "follow", nullptr));
}

}  // namespace

void follow_stance(Borrowed<> stance, bool is_own) {
    Followed followed{.object = Ref<>::share(stance)};
    if (!is_own) {
        common() = std::move(followed);
        return;
    }
    if (own != nullptr) --own_stances;
    delete std::exchange(own, stance.get() == Py_None ? nullptr : new Followed(std::move(followed)));
    if (own != nullptr) ++own_stances;
}

const Stance& current_stance() {
    static auto* const by_default = new Stance();
    if (own_stances != 0 && own != nullptr) return own->read();
    if (!common().object) {
        if (!has_dynamo()) return *by_default;
        begin_to_follow();
    }
    return common().object ? common().read() : *by_default;
}

}  // namespace stator

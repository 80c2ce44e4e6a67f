#include "cpython/finalizers.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "base/short_list.h"
#include "cpython/objects.h"

namespace stator::cpython {

namespace {

constexpr int kCreated = PY_VERSION_HEX >= 0x030D0000 ? -3 : -2;

/// A generator that is suspended inside a `try` or `with` runs its cleanup; a coroutine that never ran gives a warning.
bool generator_has_finalizer(PyObject* object) {
    auto* generator = reinterpret_cast<PyGenObject*>(object);
    int state = generator->gi_frame_state;
    if (state >= 0) return false;
    if (state == kCreated) return !PyGen_CheckExact(object);
    return PyBytes_GET_SIZE(generator_code(object)->co_exceptiontable) != 0;
}

/// Whether it removes a key from a dictionary that Stator has marked: a fake mode of a backend remembers the tensors
/// that it was shown. The callback has a weak reference to its dictionary as a default argument.
bool removes_from_bookkeeping(PyObject* callback) {
    PyObject* const defaults = PyFunction_GET_DEFAULTS(callback);
    if (defaults == nullptr || PyTuple_GET_SIZE(defaults) != 1) return false;
    PyObject* const reference = PyTuple_GET_ITEM(defaults, 0);
    if (!PyWeakref_CheckRefExact(reference)) return false;
    PyObject* const dictionary = PyWeakref_GET_OBJECT(reference);
    return dictionary != Py_None && PyObject_HasAttrString(dictionary, "_stator_bookkeeping") != 0;
}

/// Once torch._dynamo has compiled something, it keeps a weak reference to every new module, with a callback that
/// removes it. Callbacks of PyTorch's private modules are not visible to the program.
bool is_bookkeeping(PyObject* callback) {
    if (!PyFunction_Check(callback)) return false;
    if (removes_from_bookkeeping(callback)) return true;
    PyObject* name = PyDict_GetItemString(PyFunction_GET_GLOBALS(callback), "__name__");
    const char* text = name != nullptr && PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8(name) : nullptr;
    return text != nullptr && std::string_view(text).starts_with("torch._");
}

bool has_callback(PyObject* object) {
    if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) return false;
    auto* reference = reinterpret_cast<PyWeakReference*>(*PyObject_GET_WEAKREFS_LISTPTR(object));
    for (; reference != nullptr; reference = reference->wr_next)
        if (reference->wr_callback != nullptr && !is_bookkeeping(reference->wr_callback)) return true;
    return false;
}

bool is_lasting(PyObject* object) {
    return PyType_Check(object) || PyModule_Check(object);
}

/// The objects that are freed with one object.
class Freed {
  public:
    explicit Freed(const SharedContents* shared, std::span<PyObject* const> kept = {}) : shared_(shared), kept_(kept) {}

    bool is_quiet(std::span<PyObject* const> objects) {
        for (PyObject* object : objects) waiting_.push_back(object);
        while (!waiting_.empty()) {
            PyObject* object = waiting_.back();
            waiting_.pop_back();
            if (std::ranges::find(kept_, object) != kept_.end()) continue;
            if (has_finalizer(object)) return false;
            if (!PyObject_IS_GC(object) || Py_TYPE(object)->tp_traverse == nullptr || is_lasting(object)) continue;
            Py_TYPE(object)->tp_traverse(object, visit, this);
        }
        return true;
    }

  private:
    static int visit(PyObject* object, void* context) {
        auto& self = *static_cast<Freed*>(context);
        if (is_always_freed_without_code(Py_TYPE(object))) return 0;
        if (Py_REFCNT(object) == 1) {
            self.waiting_.push_back(object);
            return 0;
        }
        if (is_lasting(object)) return 0;
        // An object with several references is freed if all of them are dropped.
        Py_ssize_t& reached = self.references_reached(object);
        if (reached == kFreed) return 0;
        bool is_first = ++reached == 1;
        bool is_freed = reached == Py_REFCNT(object) ||
                        (is_first && self.shared_ != nullptr && self.shared_->is_freed(object, self.shared_->context));
        if (is_freed) {
            reached = kFreed;
            self.waiting_.push_back(object);
        }
        return 0;
    }

    Py_ssize_t& references_reached(PyObject* object) {
        for (Reached& one : few_)
            if (one.object == object) return one.references;
        if (few_.size() == kFew) {
            if (more_ == nullptr) more_ = std::make_unique<std::unordered_map<PyObject*, Py_ssize_t>>();
            return (*more_)[object];
        }
        few_.push_back({object, 0});
        return few_.back().references;
    }

    struct Reached {
        PyObject* object;
        Py_ssize_t references;  // how many; `kFreed` once it counts as freed
    };
    static constexpr Py_ssize_t kFreed = -1;
    static constexpr std::size_t kFew = 16;  // are searched one after the other
    const SharedContents* shared_;
    std::span<PyObject* const> kept_;
    ShortList<PyObject*, 32> waiting_;
    ShortList<Reached, kFew> few_;
    std::unique_ptr<std::unordered_map<PyObject*, Py_ssize_t>> more_;
};

}  // namespace

bool has_finalizer(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    bool is_finalized = type->tp_finalize != nullptr || type->tp_del != nullptr;
    if (type == &PyGen_Type || type == &PyCoro_Type || type == &PyAsyncGen_Type)
        is_finalized = generator_has_finalizer(object);
    return (is_finalized || has_callback(object)) && !is_lasting(object);
}

bool is_freed_without_code(PyObject* object, const SharedContents* shared) {
    return Freed(shared).is_quiet({&object, 1});
}

bool are_freed_without_code(std::span<PyObject* const> objects, std::span<PyObject* const> kept) {
    return Freed(nullptr, kept).is_quiet(objects);
}

}  // namespace stator::cpython

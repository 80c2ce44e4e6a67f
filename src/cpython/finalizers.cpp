#include "cpython/finalizers.h"

#include <string_view>
#include <unordered_map>
#include <vector>

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
    explicit Freed(const SharedContents* shared) : shared_(shared) {}

    bool is_quiet(std::span<PyObject* const> objects) {
        waiting_.assign(objects.begin(), objects.end());
        while (!waiting_.empty()) {
            PyObject* object = waiting_.back();
            waiting_.pop_back();
            if (is_lasting(object)) continue;
            if (has_finalizer(object)) return false;
            if (!PyObject_IS_GC(object) || Py_TYPE(object)->tp_traverse == nullptr) continue;
            Py_TYPE(object)->tp_traverse(object, visit, this);
        }
        return true;
    }

  private:
    static int visit(PyObject* object, void* context) {
        auto& self = *static_cast<Freed*>(context);
        if (Py_REFCNT(object) == 1) {
            self.waiting_.push_back(object);
            return 0;
        }
        if (is_lasting(object)) return 0;
        // An object with several references is freed if all of them are dropped.
        Py_ssize_t& reached = self.reached_[object];
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

    static constexpr Py_ssize_t kFreed = -1;
    const SharedContents* shared_;
    std::vector<PyObject*> waiting_;
    std::unordered_map<PyObject*, Py_ssize_t> reached_;  // how many references; `kFreed` once it counts as freed
};

}  // namespace

bool has_finalizer(PyObject* object) {
    if (is_lasting(object)) return false;
    PyTypeObject* type = Py_TYPE(object);
    if (type == &PyGen_Type || type == &PyCoro_Type || type == &PyAsyncGen_Type) {
        if (generator_has_finalizer(object)) return true;
    } else if (type->tp_finalize != nullptr || type->tp_del != nullptr) {
        return true;
    }
    return has_callback(object);
}

bool is_freed_without_code(PyObject* object, const SharedContents* shared) {
    return Freed(shared).is_quiet({&object, 1});
}

bool are_freed_without_code(std::span<PyObject* const> objects) {
    return Freed(nullptr).is_quiet(objects);
}

}  // namespace stator::cpython

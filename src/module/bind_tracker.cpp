/// `stator._C.ModuleTracker`: the base class of `stator.ModuleTracker`.
#include <memory>
#include <new>

#include "base/boundary.h"
#include "base/names.h"
#include "base/text.h"
#include "torch/autograd.h"
#include "track/tracker.h"

namespace stator {

namespace {

using track::Path;
using track::Tracker;
using track::Tracking;

struct TrackerObject {
    PyObject ob_base;
    std::shared_ptr<Tracker> tracker;
};

Tracker& tracker_of(PyObject* self) {
    return *reinterpret_cast<TrackerObject*>(self)->tracker;
}

/// Reads the position of this thread; `Global` if the tracker is not active.
template <class Read>
PyObject* read_here(PyObject* self, Read read) {
    return at_boundary([&] {
        std::shared_ptr<Tracking> tracking = tracker_of(self).tracking();
        if (!tracking) tracking = std::make_shared<Tracking>(tracker_of(self).names());
        return read(*tracking->here());
    });
}

PyObject* make(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr)
        new (&reinterpret_cast<TrackerObject*>(self)->tracker) std::shared_ptr<Tracker>(std::make_shared<Tracker>());
    return self;
}

int initialise(PyObject* self, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"on_enter", "on_leave", nullptr};
    PyObject *on_enter = Py_None, *on_leave = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OO:ModuleTracker", const_cast<char**>(names), &on_enter,
                                     &on_leave))
        return -1;
    for (PyObject* callback : {on_enter, on_leave}) {
        if (callback != Py_None && !PyCallable_Check(callback)) {
            PyErr_SetString(PyExc_TypeError, "on_enter and on_leave take a callable (name, module, is_bw), or None");
            return -1;
        }
    }
    tracker_of(self).on_enter = on_enter == Py_None ? Ref<>() : Ref<>::share(on_enter);
    tracker_of(self).on_leave = on_leave == Py_None ? Ref<>() : Ref<>::share(on_leave);
    return 0;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(tracker_of(self).on_enter.get());
    Py_VISIT(tracker_of(self).on_leave.get());
    return 0;
}

int clear(PyObject* self) {
    tracker_of(self).on_enter = nullptr;
    tracker_of(self).on_leave = nullptr;
    return 0;
}

void dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    {
        // Freed without being exited: there is no caller to raise in.
        ErrorAside aside;
        clear(self);
        tracker_of(self).exit();
    }
    reinterpret_cast<TrackerObject*>(self)->tracker.~shared_ptr();
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* enter(PyObject* self, PyObject*) {
    return at_boundary([&] {
        tracker_of(self).enter();
        return Ref<>::share(self);
    });
}

PyObject* exit(PyObject* self, PyObject*) {
    return at_boundary([&] {
        tracker_of(self).exit();
        return Ref<>::share(Py_None);
    });
}

PyObject* parents(PyObject* self, void*) {
    return read_here(self, [](const Path& path) { return path.names(); });
}

PyObject* path(PyObject* self, void*) {
    return read_here(self, [](const Path& path) { return Ref<>::share(path.name()); });
}

PyObject* calls(PyObject* self, void*) {
    return read_here(self, [](const Path& path) {
        Ref<> list = checked(PyList_New(0));
        for (const Path* each = &path; each->parent() != nullptr; each = each->parent())
            checked(PyList_Append(list.get(), each->name()));
        checked(PyList_Reverse(list.get()));
        return checked(PyList_AsTuple(list.get()));
    });
}

PyObject* is_backward(PyObject* self, void*) {
    return PyBool_FromLong(tracker_of(self).is_active() && torch_room::running_backward() != -1);
}

PyObject* is_active(PyObject* self, void*) {
    return PyBool_FromLong(tracker_of(self).is_active());
}

PyObject* roots(PyObject* self, PyObject*) {
    return at_boundary([&] {
        Ref<> roots = checked(PyDict_New());
        for (const auto& [name, module] : tracker_of(self).names()->roots())
            checked(PyDict_SetItem(roots.get(), name.get(), module.get()));
        return roots;
    });
}

PyObject* children(PyObject*, PyObject* module) {
    return at_boundary([&] {
        Ref<> children = checked(PyDict_New());
        for (const auto& [key, child] : track::children_of(module))
            checked(PyDict_SetItem(children.get(), key.get(), child.get()));
        return children;
    });
}

PyGetSetDef kProperties[] = {
    {"parents", parents, nullptr, "A new set of the names of the running modules, with \"Global\".", nullptr},
    {"path", path, nullptr, "The name of the innermost of them, \"Global\" if there is none.", nullptr},
    {"calls", calls, nullptr, "Their names from the outermost to the innermost, without \"Global\".", nullptr},
    {"is_bw", is_backward, nullptr, "Whether this thread runs a backward pass.", nullptr},
    {"is_active", is_active, nullptr, "Whether the context is entered.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef kMethods[] = {
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", exit, METH_VARARGS, nullptr},
    {"_roots", roots, METH_NOARGS, "The live models by name."},
    {"_children", children, METH_O | METH_STATIC,
     "The registered submodules of a module, without wrappers of compilers."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot kSlots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_init, reinterpret_cast<void*>(initialise)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_getset, kProperties},
    {Py_tp_methods, kMethods},
    {0, nullptr},
};

PyType_Spec kSpec = {"stator._C.ModuleTracker", sizeof(TrackerObject), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, kSlots};

}  // namespace

bool bind_tracker(PyObject* module) {
    PyObject* type = PyType_FromSpec(&kSpec);
    if (type == nullptr) return false;
    int status = PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type));
    Py_DECREF(type);
    return status == 0;
}

}  // namespace stator

/// How often something was captured, the kinds of graph breaks, and captures that fail on purpose.
#include <limits>

#include "base/alive.h"
#include "base/boundary.h"
#include "capture/capture.h"
#include "trace/injected_error.h"
#include "value/break.h"

namespace stator {

namespace {

PyObject* captures(PyObject*, PyObject*) {
    return PyLong_FromSize_t(capture_count());
}

PyObject* alive(PyObject*, PyObject*) {
    return at_boundary([] {
        Ref<> counts = checked(PyDict_New());
        for (std::size_t i = 0; i < alive_counts.size(); ++i)
            checked(PyDict_SetItemString(counts.get(), kAliveNames[i],
                                         checked(PyLong_FromLongLong(alive_counts[i])).get()));
        return counts;
    });
}

PyObject* break_kinds(PyObject*, PyObject*) {
    return at_boundary([] {
        Ref<> kinds = checked(PyDict_New());
        constexpr BreakKind kAll[] = {
#define BREAK_KIND(name, stable_name, hint) BreakKind::name,
#include "value/break_kinds.def"
#undef BREAK_KIND
        };
        for (BreakKind kind : kAll) {
            if (kind == BreakKind::Yield) continue;  // not shown to users
            checked(PyDict_SetItemString(kinds.get(), name(kind), checked(PyUnicode_FromString(hint(kind))).get()));
        }
        return kinds;
    });
}

PyObject* fail_at_node(PyObject*, PyObject* number) {
    if (number == Py_None) {
        failing_node = std::numeric_limits<std::size_t>::max();
        Py_RETURN_NONE;
    }
    std::size_t wanted = PyLong_AsSize_t(number);
    if (PyErr_Occurred() != nullptr) return nullptr;
    failing_node = wanted;
    Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"captures", captures, METH_NOARGS, "The number of successful captures since the process started."},
    {"alive", alive, METH_NOARGS, "How many arenas, guard programs and runners of graphs exist."},
    {"break_kinds", break_kinds, METH_NOARGS, "The stable names of all kinds of breaks, with a hint for each."},
    {"fail_at_node", fail_at_node, METH_O, "Makes adding node n to a graph an internal error; None ends that."},
    {},
};

}  // namespace

bool bind_capture(PyObject* module) {
    return PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator

#include "run/skipped_code.h"

#include <unordered_map>

#include "base/python_error.h"
#include "base/ref.h"
#include "base/text.h"

namespace stator {

namespace {

/// Weak references: the address of a freed code object may be that of another one later.
std::unordered_map<PyCodeObject*, Ref<>>& all_skipped() {
    static auto* const skipped = new std::unordered_map<PyCodeObject*, Ref<>>();
    return *skipped;
}

}  // namespace

void skip(PyCodeObject* code) {
    Ref<> reference = checked(PyWeakref_NewRef(reinterpret_cast<PyObject*>(code), nullptr));
    all_skipped().insert_or_assign(code, std::move(reference));
}

bool is_skipped(PyCodeObject* code) {
    auto found = all_skipped().find(code);
    return found != all_skipped().end() &&
           PyWeakref_GET_OBJECT(found->second.get()) == reinterpret_cast<PyObject*>(code);
}

bool leaves_frame_uncompiled(PyObject* callable) {
    if (!PyFunction_Check(callable)) return false;
    auto* function = reinterpret_cast<PyFunctionObject*>(callable);
    // The text of most functions' names is never asked for.
    static PyObject* const name = PyUnicode_InternFromString("step_unsupported");
    if (function->func_name != name && PyUnicode_CHECK_INTERNED(function->func_name) != 0) return false;
    return utf8(function->func_name) == "step_unsupported" && function->func_module != nullptr &&
           PyUnicode_Check(function->func_module) && utf8(function->func_module) == "torch._dynamo.decorators";
}

}  // namespace stator

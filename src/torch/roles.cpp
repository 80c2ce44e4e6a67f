/// Which callables of PyTorch become nodes. torch._dynamo has lists of thousands of names for this; the same decisions
/// follow from the module of a callable, and the tests compare them with torch._dynamo's.
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "torch/leaf_functions.h"

namespace stator::torch_room {

namespace {

using Callables = std::unordered_set<PyObject*>;

/// All C functions of a module or class of PyTorch's extension.
void add_c_functions(Callables& callables, Borrowed<> holder) {
    Ref<> names = checked(PyObject_Dir(holder));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
        Ref<> member = Ref<>::steal(PyObject_GetAttr(holder, PyList_GET_ITEM(names.get(), i)));
        if (!member) {
            PyErr_Clear();
            continue;
        }
        if (PyCFunction_Check(member.get())) callables.insert(member.release());
    }
}

const Callables& c_operations() {
    static const Callables* operations = [] {
        auto* made = new Callables();
        Ref<> extension = checked(PyImport_ImportModule("torch._C"));
        for (const char* part : {"_VariableFunctions", "_nn", "_linalg", "_fft", "_special", "_sparse", "_nested"}) {
            Ref<> holder = Ref<>::steal(PyObject_GetAttrString(extension.get(), part));
            if (holder)
                add_c_functions(*made, holder.get());
            else
                PyErr_Clear();
        }
        return made;
    }();
    return *operations;
}

/// Modules of PyTorch whose public Python functions are operations.
bool holds_operations(std::string_view module) {
    return module == "torch.nn.functional" || module == "torch.functional" || module == "torch._lowrank" ||
           module == "torch.signal.windows.windows" || module == "torch.masked._ops";
}

/// Public functions of torch.nn.functional that torch._dynamo inlines: the functions that they call become nodes.
bool is_traced_into(std::string_view name) {
    static const std::unordered_set<std::string_view> names = {
        "lp_pool3d",
        "threshold",
        "rms_norm",
        "linear_cross_entropy",
        "pad",
        "triplet_margin_with_distance_loss",
        "grouped_mm",
        "scaled_mm",
        "scaled_grouped_mm",
    };
    return names.contains(name);
}

/// Whether `torch.compile` or `torch.compiler.disable` created the function: it has the name of the wrapped one.
bool is_wrapper(PyObject* function) {
    PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
    PyObject* id =
        attributes == nullptr ? nullptr : PyDict_GetItemWithError(attributes, interned("_torchdynamo_wrapper_id"));
    return id != nullptr && PyLong_Check(id) && PyLong_AsVoidPtr(id) == function;
}

Role role_of_function(PyObject* function) {
    PyObject* module = reinterpret_cast<PyFunctionObject*>(function)->func_module;
    if (module == nullptr || !PyUnicode_CheckExact(module)) return Role::None;
    std::string_view module_name = utf8(module);
    if (!module_name.starts_with("torch.") || is_wrapper(function)) return Role::None;
    std::string_view name = utf8(reinterpret_cast<PyFunctionObject*>(function)->func_name);
    if (module_name == "torch._tensor") {
        std::string_view qualified = utf8(reinterpret_cast<PyFunctionObject*>(function)->func_qualname);
        return qualified.starts_with("Tensor.") ? Role::TensorMethod : Role::None;
    }
    if (module_name.starts_with("torch._dynamo.")) {
        if (module_name == "torch._dynamo.external_utils" && name == "is_compiling") return Role::IsCompiling;
        if (module_name == "torch._dynamo.mutation_guard" && name == "tag") return Role::Bookkeeping;
        // Its code is not made to be traced, and what it returns is not to be captured anyway.
        if (module_name == "torch._dynamo.decorators" && name == "disable") return Role::Disallowed;
        if (module_name == "torch._dynamo.decorators" && name == "nonstrict_trace") return Role::MarksNonstrict;
        return Role::None;
    }
    if (!holds_operations(module_name) || name.starts_with("_") || is_traced_into(name)) return Role::None;
    return Role::InGraph;
}

/// `torch.ops.aten.add`, with or without the name of an overload.
bool is_operator(PyObject* callable) {
    static const auto* const classes = [] {
        return new std::unordered_set<PyObject*>{imported("torch._ops", "OpOverload"),
                                                 imported("torch._ops", "OpOverloadPacket")};
    }();
    return classes->contains(reinterpret_cast<PyObject*>(Py_TYPE(callable)));
}

/// One of torch._dynamo's sets of ids, for `allow_in_graph` and `disallow_in_graph`. Empty until torch._dynamo is
/// imported. Every inlined call looks into them, so they are read from dicts, without attribute protocols.
class UserSet {
  public:
    explicit UserSet(const char* name) : name_(name) {}

    bool has(PyObject* callable) {
        PyObject* ids = function_ids();
        if (ids == nullptr || !PyAnySet_Check(ids) || PySet_GET_SIZE(ids) == 0) return false;
        Ref<> id = Ref<>::steal(PyLong_FromVoidPtr(callable));
        ErrorAside aside;
        int found = PySet_Contains(ids, id.get());
        PyErr_Clear();
        return found == 1;
    }

  private:
    /// The set inside of the `FunctionIdSet`, which makes it when it is first called; null without torch._dynamo.
    PyObject* function_ids() const {
        PyObject* rules = PyDict_GetItemWithError(PyImport_GetModuleDict(), interned("torch._dynamo.trace_rules"));
        if (rules == nullptr || !PyModule_Check(rules)) return nullptr;
        PyObject* holder = PyDict_GetItemWithError(PyModule_GetDict(rules), interned(name_));
        return holder == nullptr ? nullptr : cpython::instance_attribute(holder, interned("function_ids")).get();
    }

    const char* name_;
};

UserSet allowed{"_allowed_callable_ids"};
UserSet disallowed{"_disallowed_callable_ids"};
UserSet nonstrict{"_nonstrict_trace_callable_ids"};
UserSet leaves{"_leaf_function_ids"};

}  // namespace

Role role_of(PyObject* callable) {
    if (PyFunction_Check(callable)) {
        Role role = role_of_function(callable);
        if (disallowed.has(callable)) return Role::Disallowed;
        return role == Role::None && allowed.has(callable) ? Role::InGraph : role;
    }
    // A callable object, such as the operations of compiled autograd.
    if (!PyCFunction_Check(callable))
        return is_operator(callable) || allowed.has(callable) ? Role::InGraph : Role::None;
    if (!c_operations().contains(callable)) return Role::None;
    return disallowed.has(callable) ? Role::Disallowed : Role::InGraph;
}

PyObject* optimizer_initialization(PyObject* function) {
    if (utf8(reinterpret_cast<PyFunctionObject*>(function)->func_name) != "_init_group") return nullptr;
    if (is_wrapper(function)) {
        PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
        function = PyDict_GetItemWithError(attributes, interned("_torchdynamo_orig_callable"));
        if (function == nullptr || !PyFunction_Check(function)) return nullptr;
    }
    PyObject* module = reinterpret_cast<PyFunctionObject*>(function)->func_module;
    const bool is_of_pytorch =
        module != nullptr && PyUnicode_CheckExact(module) && utf8(module).starts_with("torch.optim.");
    return is_of_pytorch ? function : nullptr;
}

bool is_marked_in_graph(PyObject* function) {
    return role_of_function(function) == Role::None && allowed.has(function);
}

bool is_nonstrict(PyObject* function) {
    return nonstrict.has(function);
}

bool is_leaf_function(PyObject* function) {
    return leaves.has(function);
}

}  // namespace stator::torch_room

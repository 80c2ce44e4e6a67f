#include "value/builtins/config_patches.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "effect/plan.h"
#include "value/builtins/library.h"
#include "value/kinds/object.h"

namespace stator {

namespace {

PyObject* dynamo_config() {
    return PyDict_GetItemWithError(PyImport_GetModuleDict(), interned("torch._dynamo.config"));
}

/// Settings that a trace need not know: a graph break inside of a patch enters it, and what is captured next sees them.
constexpr std::array<std::string_view, 6> kUnusedInTraces = {
    "verbose",       "verify_correctness", "rewrite_assert_with_torch_assert",
    "skip_torchrec", "dont_skip_tracing",  "nested_graph_breaks",
};

// --- the real objects ------------------------------------------------------------------------------------------------

/// The code of `__enter__` and `__exit__` in the class that `ConfigModule.patch` makes in each call.
struct PatchCode {
    PyObject* enter = nullptr;
    PyObject* exit = nullptr;

    PatchCode() {
        Ref<> patch = find_imported("torch.utils._config_module", "ConfigModule.patch");
        if (!patch || !PyFunction_Check(patch.get())) return;
        PyObject* constants = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(patch.get()))->co_consts;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
            PyObject* inner = PyTuple_GET_ITEM(constants, i);
            if (!PyCode_Check(inner)) continue;
            enter = code_in(inner, "__enter__");
            exit = code_in(inner, "__exit__");
        }
    }

    static PyObject* code_in(PyObject* class_body, std::string_view name) {
        PyObject* constants = reinterpret_cast<PyCodeObject*>(class_body)->co_consts;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
            PyObject* method = PyTuple_GET_ITEM(constants, i);
            if (PyCode_Check(method) && utf8(reinterpret_cast<PyCodeObject*>(method)->co_name) == name)
                return Py_NewRef(method);
        }
        return nullptr;
    }
};

const PatchCode& patch_code() {
    static const auto* const code = new PatchCode();
    return *code;
}

/// Whether the function closes over `torch._dynamo.config`, as the methods of its patches do.
bool is_about_dynamo(PyObject* function) {
    PyObject* closure = PyFunction_GET_CLOSURE(function);
    PyObject* config = dynamo_config();
    for (Py_ssize_t i = 0; closure != nullptr && config != nullptr && i < PyTuple_GET_SIZE(closure); ++i)
        if (PyCell_GET(PyTuple_GET_ITEM(closure, i)) == config) return true;
    return false;
}

/// The dict of settings that a patch changes; empty if the object has none.
Ref<> changes_of(PyObject* patch) {
    Ref<> changes = Ref<>::steal(PyObject_GetAttrString(patch, "changes"));
    PyErr_Clear();
    return changes && PyDict_CheckExact(changes.get()) ? std::move(changes) : Ref<>();
}

/// What a patch that was entered before the trace began will restore; empty if that is unknown.
Ref<> saved_by(PyObject* patch) {
    Ref<> variable = Ref<>::steal(PyObject_GetAttrString(patch, "_prior"));
    PyObject* stack = nullptr;
    if (!variable || !PyContextVar_CheckExact(variable.get()) ||
        PyContextVar_Get(variable.get(), nullptr, &stack) != 0 || stack == nullptr) {
        PyErr_Clear();
        return {};
    }
    Ref<> held = Ref<>::steal(stack);
    const Py_ssize_t depth = PyTuple_Check(stack) ? PyTuple_GET_SIZE(stack) : 0;
    PyObject* last = depth == 0 ? nullptr : PyTuple_GET_ITEM(stack, depth - 1);
    return last != nullptr && PyDict_CheckExact(last) ? Ref<>::share(last) : Ref<>();
}

bool is_known_setting(PyObject* name, PyObject* value) {
    Ref<> entries = checked(PyObject_GetAttrString(dynamo_config(), "_config"));
    if (!PyUnicode_Check(name) || PyDict_GetItemWithError(entries.get(), name) == nullptr) return false;
    if (std::ranges::find(kUnusedInTraces, utf8(name)) != kUnusedInTraces.end()) return true;
    static constexpr std::array<std::string_view, 6> kUsed = {
        "trace_autograd_ops", "capture_scalar_outputs", "capture_dynamic_output_shape_ops",
        "specialize_int",     "specialize_float",       "allow_unspec_int_on_nn_module",
    };
    return PyBool_Check(value) && std::ranges::find(kUsed, utf8(name)) != kUsed.end();
}

bool are_known_settings(const Ref<>& changes) {
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(changes.get(), &at, &name, &value) != 0;)
        if (!is_known_setting(name, value)) return false;
    return true;
}

// --- effects ---------------------------------------------------------------------------------------------------------

PyObject* enter_now(PyObject*, PyObject* patch) {
    return PyObject_CallMethod(patch, "__enter__", nullptr);
}

PyObject* exit_now(PyObject*, PyObject* patch) {
    return PyObject_CallMethod(patch, "__exit__", "OOO", Py_None, Py_None, Py_None);
}

/// What a plan calls to enter a patch.
PyObject* entering() {
    static PyMethodDef definition{"enter_config_patch", enter_now, METH_O, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    return function;
}

PyObject* leaving() {
    static PyMethodDef definition{"exit_config_patch", exit_now, METH_O, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    return function;
}

PyObject* patch_of(const Effect& effect) {
    return effect.from[0]->object();
}

bool is_of_patch(const Effect& effect) {
    return effect.op == PlanOp::Call && (effect.object == entering() || effect.object == leaving());
}

Ref<> item_of(const Ref<>& dict, PyObject* name) {
    PyObject* found = dict ? PyDict_GetItemWithError(dict.get(), name) : nullptr;
    return found == nullptr ? Ref<>() : Ref<>::share(found);
}

/// The value of a setting after the patches that the trace has entered and left; empty if none of them concerns it.
Ref<> patched(const Tracer& tracer, PyObject* name) {
    Ref<> now;
    std::vector<std::pair<PyObject*, Ref<>>> saved;
    for (const Effect& effect : tracer.effects().entries()) {
        if (!is_of_patch(effect)) continue;
        PyObject* patch = patch_of(effect);
        Ref<> change = item_of(changes_of(patch), name);
        if (!change) continue;
        if (effect.object == entering()) {
            saved.emplace_back(patch, std::exchange(now, std::move(change)));
            continue;
        }
        const auto own = std::ranges::find(saved.rbegin(), saved.rend(), patch, &std::pair<PyObject*, Ref<>>::first);
        if (own == saved.rend()) {
            now = item_of(saved_by(patch), name);
        } else {
            now = std::move(own->second);
            saved.erase(std::next(own).base());
        }
    }
    return now;
}

/// Traces on with what the settings of a patch are now.
void follow(Tracer& tracer, const Ref<>& changes) {
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(changes.get(), &at, &name, &value) != 0;) {
        Ref<> now = patched(tracer, name);
        change_setting(tracer, utf8(name), now ? std::optional(PyObject_IsTrue(now.get()) == 1) : std::nullopt);
    }
}

Outcome enter(Tracer& tracer, Value* patch, const Ref<>& changes) {
    tracer.effects().log({PlanOp::Call, {patch}, entering()});
    follow(tracer, changes);
    return tracer.none();
}

Outcome leave(Tracer& tracer, Value* patch, const Ref<>& changes) {
    tracer.effects().log({PlanOp::Call, {patch}, leaving()});
    follow(tracer, changes);
    return tracer.none();
}

// --- new patches -----------------------------------------------------------------------------------------------------

/// A call of a function that makes a patch of constants: it is made once, when it is traced. A patch may be entered by
/// several threads at a time; those of torch that may not be have no `_prior`.
Outcome make_patch(Tracer& tracer, PyObject* function, const Arguments& arguments, const char* what) {
    ConstantArguments constants;
    if (!constants.take(tracer, arguments))
        tracer.break_graph(BreakKind::UnknownFunction, std::string(what) + " is called with what is not a constant");
    Ref<> made = constants.call(function);
    if (!made) tracer.raise_from_python();
    Ref<> inner = Ref<>::steal(PyObject_GetAttrString(made.get(), "config_patch"));
    PyErr_Clear();
    if (PyObject_HasAttrString(inner ? inner.get() : made.get(), "_prior") == 0)
        tracer.break_graph(BreakKind::UnknownFunction, std::string(what) + " is called");
    PyObject* kept = tracer.keep(std::move(made));
    return tracer.outside(tracer.provenance().pinned(kept), kept);
}

/// `torch._dynamo.config.patch(...)`, which is a method of a module.
Outcome patch_config(Tracer& tracer, const Arguments& arguments) {
    PyObject* config = arguments.positional.empty() ? nullptr : arguments.positional[0]->object();
    if (config == nullptr || config != dynamo_config())
        tracer.break_graph(BreakKind::UnknownFunction, "settings of PyTorch are patched");
    tracer.realize(arguments.positional[0]);
    Arguments others = arguments;
    others.positional.erase(others.positional.begin());
    Ref<> method = checked(PyObject_GetAttrString(config, "patch"));
    return make_patch(tracer, tracer.keep(std::move(method)), others, "torch._dynamo.config.patch");
}

Outcome patch_dynamo_config(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported("torch._dynamo", "patch_dynamo_config");
    return make_patch(tracer, function, arguments, "torch._dynamo.patch_dynamo_config");
}

}  // namespace

std::string name_of_dynamo_setting(PyObject* variable) {
    PyObject* config = dynamo_config();
    Ref<> all = config != nullptr ? Ref<>::steal(PyObject_GetAttrString(config, "_config")) : Ref<>();
    PyErr_Clear();
    if (!all || !PyDict_Check(all.get())) return "";
    PyObject *key = nullptr, *entry = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(all.get(), &at, &key, &entry) != 0;) {
        Ref<> held = Ref<>::steal(PyObject_GetAttrString(entry, "user_override"));
        PyErr_Clear();
        if (held.get() == variable && PyUnicode_Check(key)) return std::string(utf8(key));
    }
    return "";
}

Value* patched_setting(Tracer& tracer, PyObject* variable) {
    if (std::ranges::none_of(tracer.effects().entries(), is_of_patch)) return nullptr;
    const std::string name = name_of_dynamo_setting(variable);
    if (name.empty()) return nullptr;
    Ref<> value = patched(tracer, checked(PyUnicode_FromString(name.c_str())).get());
    return value ? tracer.fresh(std::move(value)) : nullptr;
}

std::optional<Outcome> call_of_config_patch(Tracer& tracer, const FunctionValue* function, const Arguments& arguments) {
    auto* code = reinterpret_cast<PyObject*>(function->code);
    const bool is_enter = code == patch_code().enter;
    if ((!is_enter && code != patch_code().exit) || !is_about_dynamo(function->outside)) return std::nullopt;
    Value* patch = arguments.positional.empty() ? nullptr : arguments.positional[0];
    if (patch == nullptr || patch->source == nullptr || patch->object() == nullptr) return std::nullopt;
    const Ref<> changes = changes_of(patch->object());
    if (!changes || !are_known_settings(changes)) return std::nullopt;
    tracer.realize(patch);
    if (is_enter) return enter(tracer, patch, changes);
    const bool is_entered_here = std::ranges::any_of(tracer.effects().entries(), [&](const Effect& effect) {
        return is_of_patch(effect) && effect.object == entering() && effect.from[0] == patch;
    });
    if (!is_entered_here && !saved_by(patch->object())) return std::nullopt;
    return leave(tracer, patch, changes);
}

std::vector<bool> balanced_patches(std::span<const Effect> effects) {
    std::vector<bool> is_left_out(effects.size());
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < effects.size(); ++i) {
        if (!is_of_patch(effects[i])) continue;
        const bool closes = effects[i].object == leaving() && !open.empty() &&
                            effects[open.back()].object == entering() &&
                            effects[open.back()].from[0] == effects[i].from[0];
        if (closes) {
            is_left_out[open.back()] = is_left_out[i] = true;
            open.pop_back();
        } else {
            open.push_back(i);
        }
    }
    return is_left_out;
}

void register_config_patches(Handlers& handlers) {
    handlers.add("torch.utils._config_module", "ConfigModule.patch", patch_config);
    handlers.add_once_imported("torch._dynamo", "patch_dynamo_config", patch_dynamo_config);
}

}  // namespace stator

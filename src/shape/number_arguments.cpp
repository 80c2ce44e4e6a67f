#include "shape/number_arguments.h"

#include <string_view>
#include <unordered_set>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "shape/answer_by_rule.h"
#include "torch/arrays.h"

namespace stator::shape {

namespace {

constexpr const char* kOperators[] = {"add",  "sub",  "mul",  "truediv",  "floordiv",  "mod",  "and_",   "or_", "xor",
                                      "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "lt",     "le",  "eq",
                                      "ne",   "gt",   "ge",   "iand",     "ior",       "ixor", "setitem"};

/// Functions of `torch`; tensors have them as methods too.
constexpr const char* kFunctions[] = {
    "add",         "sub",          "subtract",  "mul",     "multiply", "div",       "divide",
    "true_divide", "floor_divide", "remainder", "fmod",    "eq",       "ne",        "lt",
    "le",          "gt",           "ge",        "clamp",   "clip",     "clamp_min", "clamp_max",
    "where",       "masked_fill",  "full_like", "addcmul", "addcdiv",  "lerp",
};
/// Only methods.
constexpr const char* kMethods[] = {"add_",  "sub_",   "mul_",       "div_",       "floor_divide_", "remainder_",
                                    "fmod_", "clamp_", "clamp_min_", "clamp_max_", "fill_",         "masked_fill_"};

// The same for floats only: powers are computed differently for some ints, and other ints are sizes.
constexpr const char* kOperatorsOfFloats[] = {"pow", "ipow"};
constexpr const char* kFunctionsOfFloats[] = {"pow",           "addmm",         "addmv",         "addr",
                                              "addbmm",        "baddbmm",       "full",          "tensor",
                                              "_foreach_add",  "_foreach_sub",  "_foreach_mul",  "_foreach_div",
                                              "_foreach_pow",  "_foreach_lerp", "_foreach_add_", "_foreach_sub_",
                                              "_foreach_mul_", "_foreach_div_", "_foreach_pow_", "_foreach_lerp_"};
constexpr const char* kMethodsOfFloats[] = {"pow_", "addcmul_", "addcdiv_", "lerp_", "addmm_", "baddbmm_"};

struct Names {
    std::unordered_set<PyObject*> functions;
    std::unordered_set<std::string_view> methods;

    void add_from(const char* module, std::span<const char* const> names) {
        for (const char* name : names)
            if (Ref<> function = find_imported(module, name); function) functions.insert(function.release());
    }
};

const Names& names_of_floats() {
    static const Names* made = [] {
        auto* names = new Names;
        names->add_from("_operator", kOperatorsOfFloats);
        names->add_from("torch", kFunctionsOfFloats);
        names->methods.insert(std::begin(kFunctionsOfFloats), std::end(kFunctionsOfFloats));
        names->methods.insert(std::begin(kMethodsOfFloats), std::end(kMethodsOfFloats));
        return names;
    }();
    return *made;
}

const Names& names() {
    static const Names* made = [] {
        auto* names = new Names;
        names->add_from("_operator", kOperators);
        names->add_from("torch", kFunctions);
        names->methods.insert(std::begin(kFunctions), std::end(kFunctions));
        names->methods.insert(std::begin(kMethods), std::end(kMethods));
        return names;
    }();
    return *made;
}

}  // namespace

namespace {

/// Functions of numpy, which nodes call through a wrapper (see stator.arrays), for which any int will do.
bool is_numpy_function(Borrowed<> target) {
    static const std::unordered_set<std::string_view> names = {
        "add",  "arange",  "broadcast_to", "empty", "eye",      "full",    "ge",      "gt",    "identity",
        "iadd", "imul",    "isub",         "le",    "lt",       "maximum", "minimum", "mul",   "multiply",
        "ones", "reshape", "stack",        "sub",   "subtract", "tile",    "where",   "zeros",
    };
    if (!torch_room::calls_numpy(target)) return false;
    Ref<> name = Ref<>::steal(PyObject_GetAttrString(target.get(), "__name__"));
    PyErr_Clear();
    if (!name || !PyUnicode_Check(name.get())) return false;
    constexpr std::string_view kPrefix = "wrapped_";
    std::string_view text = utf8(name.get());
    return text.starts_with(kPrefix) && names.contains(text.substr(kPrefix.size()));
}

}  // namespace

AnyNumber takes_any_number(graph::NodeKind kind, Borrowed<> target) {
    auto is_among = [&](const Names& names) {
        if (kind == graph::NodeKind::Method) return names.methods.contains(utf8(target));
        return kind == graph::NodeKind::Function && names.functions.contains(target.get());
    };
    if (is_among(names())) return AnyNumber::IntOrFloat;
    if (kind == graph::NodeKind::Function && !PyCFunction_Check(target.get()) && is_numpy_function(target))
        return AnyNumber::Int;
    return is_among(names_of_floats()) ? AnyNumber::Float : AnyNumber::None;
}

}  // namespace stator::shape

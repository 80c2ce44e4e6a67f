/// Elementwise operations: unary and binary arithmetic, comparison, logic, and their in-place forms.
#include <algorithm>
#include <string>
#include <utility>

#include "shape/language/promotion.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;
using torch_room::is_complex;
using torch_room::is_floating;
using torch_room::is_integral;

/// Types that an operation accepts and returns, packed into a rule's variant.
enum Trait : int {
    kOutputMask = 3,  // an OutputType
    kNoBool = 1 << 2,
    kNoComplex = 1 << 3,
    kNoInteger = 1 << 4,
    kIntegralOnly = 1 << 5,
    kNoGrad = 1 << 6,
    kInPlace = 1 << 7,
    kReflected = 1 << 8,
    kAutocast = 1 << 9,  // computed in float32 or a common type under autocast, on devices other than the CPU
};

constexpr int kCommon = static_cast<int>(OutputType::Common);
constexpr int kToFloat = static_cast<int>(OutputType::Float);
constexpr int kToBool = static_cast<int>(OutputType::Bool);
constexpr int kToReal = static_cast<int>(OutputType::RealOfComplex);

OutputType output_of(int variant) {
    return static_cast<OutputType>(variant & kOutputMask);
}

bool accepts(Dtype type, int variant) {
    if ((variant & kNoBool) && type == kBool) return false;
    if ((variant & kNoComplex) && is_complex(type)) return false;
    if ((variant & kNoInteger) && is_integral(type)) return false;
    if ((variant & kIntegralOnly) && !is_integral(type)) return false;
    return type != kComplexHalf;
}

bool finish(Call& call, Elementwise& elementwise, const Operand& self, bool in_place) {
    auto common = elementwise.common_type();
    if (!common || !accepts(*common, call.variant())) return false;
    OutputType output = output_of(call.variant());
    bool differentiable = !(call.variant() & kNoGrad);
    return in_place ? elementwise.writes_to(self, output, differentiable) : elementwise.gives(output, differentiable);
}

bool unary(Call& call) {
    Elementwise elementwise(call);
    if (call[0].tensor() == nullptr || !elementwise.add(call[0])) return false;
    return finish(call, elementwise, call[0], call.variant() & kInPlace);
}

bool absolute(Call& call) {
    const TensorMeta* self = call[0].tensor();
    return self != nullptr && !(is_complex(self->dtype) && has_idle_strides(*self)) && unary(call);
}

/// For integers, which are all finite, the result is computed as by `ones_like`.
bool is_finite(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    if (!is_integral(self->dtype)) return unary(call);
    return call.returns(call.fresh(self->sizes, preserved_strides(*self), kBool, self->device));
}

/// `+x`: the tensor itself.
bool positive(Call& call) {
    const TensorMeta* self = call[0].tensor();
    return self != nullptr && self->dtype != kBool && call.returns_same(call[0]);
}

bool binary_of(Call& call, bool numbers_are_operands) {
    Elementwise elementwise(call);
    const Operand &left = call[0], &right = call[1];
    // In a function call the first argument is a tensor; operators may be reflected.
    if (left.tensor() == nullptr && !((call.variant() & kReflected) && right.tensor() != nullptr)) return false;
    if (!elementwise.add(left) || !elementwise.add(right)) return false;
    if (!numbers_are_operands) elementwise.ignores_numbers();
    bool in_place = (call.variant() & kInPlace) && left.tensor() != nullptr;
    return finish(call, elementwise, left, in_place);
}

bool binary(Call& call) {
    return binary_of(call, true);
}

/// `add` and `sub` with `alpha`.
bool binary_with_alpha(Call& call) {
    if (call[2].is_given()) {
        auto type = call[2].number_type();
        if (!type || *type == kBool || is_complex(*type)) return false;
        Elementwise elementwise(call);
        if (!elementwise.add(call[0]) || !elementwise.add(call[1])) return false;
        auto common = elementwise.common_type();
        if (!common || *common == kBool || (is_floating(*type) && is_integral(*common))) return false;
    }
    return binary(call);
}

/// Subtraction rejects `bool` on either side. FakeTensor accepts a bool number.
bool subtract(Call& call) {
    for (std::size_t i = 0; i < 2; ++i) {
        if (call[i].tensor() != nullptr && call[i].tensor()->dtype == kBool) return false;
        if (call[i].number_type() != kBool) continue;
        call.answer().status = Status::Unsupported;
        call.answer().reason = "subtraction with a bool, which PyTorch rejects";
        return true;
    }
    return binary_with_alpha(call);
}

/// `div` with `rounding_mode`.
bool divide(Call& call) {
    if (call[2].is_absent()) return binary(call);
    auto mode = call[2].string();
    if (mode != "floor" && mode != "trunc") return false;
    Elementwise elementwise(call);
    if (call[0].tensor() == nullptr || !elementwise.add(call[0]) || !elementwise.add(call[1])) return false;
    auto common = elementwise.common_type();
    if (!common || is_complex(*common) || *common == kBool) return false;
    return (call.variant() & kInPlace) ? elementwise.writes_to(call[0], OutputType::Common)
                                       : elementwise.gives(OutputType::Common);
}

bool power(Call& call) {
    // Negative powers of integers raise, depending on the number.
    if (auto exponent = call[1].real(); exponent && *exponent < 0) {
        const TensorMeta* base = call[0].tensor();
        if (base == nullptr || is_integral(base->dtype)) return false;
    }
    if (call[0].tensor() == nullptr && call[0].number_type() == kBool) return false;
    return binary_of(call, false);
}

/// Shifts and bitwise operators between a tensor and a number require an int.
bool bitwise(Call& call) {
    for (std::size_t i = 0; i < 2; ++i)
        if (auto type = call[i].number_type(); type && !is_integral(*type)) return false;
    return binary(call);
}

/// `x.__rsub__(y)` is `y - x`: the order of operands affects the layout of the result too.
template <RuleFunction function>
bool swapped(Call& call) {
    if (call[0].tensor() == nullptr) return false;
    std::swap(call.slots()[0], call.slots()[1]);
    return function(call);
}

struct Named {
    const char* name;
    int traits;
};

constexpr Named kUnary[] = {
    {"acos", kToFloat | kAutocast},
    {"arccos", kToFloat | kAutocast},
    {"acosh", kToFloat},
    {"arccosh", kToFloat},
    {"asin", kToFloat | kAutocast},
    {"arcsin", kToFloat | kAutocast},
    {"asinh", kToFloat},
    {"arcsinh", kToFloat},
    {"atan", kToFloat},
    {"arctan", kToFloat},
    {"atanh", kToFloat},
    {"arctanh", kToFloat},
    {"cos", kToFloat},
    {"cosh", kToFloat | kAutocast},
    {"sin", kToFloat},
    {"sinh", kToFloat | kAutocast},
    {"tan", kToFloat | kAutocast},
    {"tanh", kToFloat},
    {"sinc", kToFloat},
    {"exp", kToFloat | kAutocast},
    {"exp2", kToFloat},
    {"expm1", kToFloat | kAutocast},
    {"log", kToFloat | kAutocast},
    {"log2", kToFloat | kAutocast},
    {"log10", kToFloat | kAutocast},
    {"log1p", kToFloat | kAutocast},
    {"sqrt", kToFloat},
    {"rsqrt", kToFloat | kAutocast},
    {"reciprocal", kToFloat | kAutocast},
    {"sigmoid", kToFloat},
    {"expit", kToFloat},
    {"gammaln", kToFloat | kNoComplex},
    {"psi", kToFloat | kNoComplex},
    {"erf", kToFloat | kNoComplex},
    {"erfc", kToFloat | kNoComplex},
    {"erfinv", kToFloat | kNoComplex | kAutocast},
    {"lgamma", kToFloat | kNoComplex},
    {"digamma", kToFloat | kNoComplex},
    {"i0e", kToFloat | kNoComplex | kAutocast},
    {"i1", kToFloat | kNoComplex | kAutocast},
    {"i1e", kToFloat | kNoComplex | kAutocast},
    {"ndtr", kToFloat | kNoComplex | kAutocast},
    {"ndtri", kToFloat | kNoComplex | kAutocast},
    {"entr", kToFloat | kNoComplex | kAutocast},
    {"erfcx", kToFloat | kNoComplex | kAutocast},
    {"angle", kToFloat | kNoComplex},
    {"i0", kToFloat | kNoComplex},
    {"deg2rad", kToFloat | kNoComplex},
    {"rad2deg", kToFloat | kNoComplex},
    {"ceil", kCommon | kNoComplex | kNoBool},
    {"floor", kCommon | kNoComplex | kNoBool},
    {"trunc", kCommon | kNoComplex | kNoBool},
    {"fix", kCommon | kNoComplex | kNoBool},
    {"frac", kCommon | kNoComplex | kNoInteger},
    {"neg", kCommon | kNoBool},
    {"negative", kCommon | kNoBool},
    {"sign", kCommon | kNoComplex},
    {"sgn", kCommon},
    {"square", kCommon | kNoBool},
    {"relu", kCommon | kNoComplex | kNoBool},
    {"bitwise_not", kCommon | kIntegralOnly},
    {"logical_not", kToBool | kNoGrad},
};

constexpr Named kUnaryFunctional[] = {
    {"isnan", kToBool | kNoGrad},
    {"isinf", kToBool | kNoGrad},
    {"isposinf", kToBool | kNoGrad | kNoComplex},
    {"isneginf", kToBool | kNoGrad | kNoComplex},
    {"signbit", kToBool | kNoGrad | kNoComplex},
};

constexpr Named kBinary[] = {
    {"mul", kCommon},
    {"multiply", kCommon},
    {"floor_divide", kCommon | kNoComplex | kNoBool},
    {"remainder", kCommon | kNoComplex | kNoBool},
    {"fmod", kCommon | kNoComplex | kNoBool},
    {"eq", kToBool | kNoGrad},
    {"ne", kToBool | kNoGrad},
    {"not_equal", kToBool | kNoGrad},
    {"lt", kToBool | kNoGrad | kNoComplex},
    {"less", kToBool | kNoGrad | kNoComplex},
    {"le", kToBool | kNoGrad | kNoComplex},
    {"less_equal", kToBool | kNoGrad | kNoComplex},
    {"gt", kToBool | kNoGrad | kNoComplex},
    {"greater", kToBool | kNoGrad | kNoComplex},
    {"ge", kToBool | kNoGrad | kNoComplex},
    {"greater_equal", kToBool | kNoGrad | kNoComplex},
    {"xlogy", kToFloat | kNoComplex},
    {"copysign", kToFloat | kNoComplex},
};

/// Both sides have to be tensors.
constexpr Named kBinaryTensors[] = {
    {"maximum", kCommon | kNoComplex},
    {"minimum", kCommon | kNoComplex},
    {"fmax", kCommon | kNoComplex},
    {"fmin", kCommon | kNoComplex},
    {"atan2", kToFloat | kNoComplex | kAutocast},
    {"arctan2", kToFloat | kNoComplex | kAutocast},
    {"hypot", kCommon | kNoComplex | kNoInteger},
    {"logaddexp", kCommon | kNoComplex | kNoInteger},
    {"logaddexp2", kCommon | kNoComplex | kNoInteger},
    {"gcd", kCommon | kIntegralOnly | kNoBool | kNoGrad},
    {"lcm", kCommon | kIntegralOnly | kNoBool | kNoGrad},
    {"nextafter", kCommon | kNoComplex | kNoInteger},
    {"logical_and", kToBool | kNoGrad},
    {"logical_or", kToBool | kNoGrad},
    {"logical_xor", kToBool | kNoGrad},
};

constexpr std::string_view kWithoutInPlace[] = {"maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2"};

bool binary_tensors(Call& call) {
    return call[1].tensor() != nullptr && binary(call);
}

bool heaviside(Call& call) {
    const TensorMeta *self = call[0].tensor(), *values = call[1].tensor();
    return self != nullptr && values != nullptr && self->dtype == values->dtype && binary(call);
}

/// An operand after a conversion before the operation.
Operand converted(const Operand& operand, Dtype type, TensorMeta& room) {
    Operand result = operand;
    if (operand.tensor() == nullptr) return result;
    room = *operand.tensor();
    if (room.dtype != type) room.strides = preserved_strides(room);
    room.dtype = type;
    result.replace_meta(&room);
    return result;
}

/// Computed in `float64`, whatever the operands are.
bool float_power(Call& call) {
    if (call[0].tensor() == nullptr && call[1].tensor() == nullptr) return false;
    Dtype type = kDouble;
    for (std::size_t i = 0; i < 2; ++i) {
        auto own = call[i].tensor() != nullptr ? std::optional(call[i].tensor()->dtype) : call[i].number_type();
        if (!own) return false;
        if (is_complex(*own)) type = kComplexDouble;
    }
    TensorMeta base, exponent;
    Elementwise elementwise(call);
    if (!elementwise.add(converted(call[0], type, base)) || !elementwise.add(converted(call[1], type, exponent)))
        return false;
    elementwise.ignores_numbers();
    if (!(call.variant() & kInPlace)) return elementwise.gives_type(type);
    return call[0].tensor() != nullptr && call[0].tensor()->dtype == type &&
           elementwise.writes_to(call[0], OutputType::Common);
}

/// `ldexp(x, other)`: x times two to the power of other.
bool load_exponent(Call& call) {
    const TensorMeta *self = call[0].tensor(), *other = call[1].tensor();
    if (self == nullptr || other == nullptr || is_complex(self->dtype) || is_complex(other->dtype)) return false;
    TensorMeta powers = *other;
    powers.strides = contiguous_strides(other->sizes);  // as the power of a number and a tensor
    if (is_integral(powers.dtype)) powers.dtype = call.state().default_dtype;
    Operand power = call[1];
    power.replace_meta(&powers);
    Elementwise elementwise(call);
    if (!elementwise.add(call[0]) || !elementwise.add(power)) return false;
    return (call.variant() & kInPlace) ? elementwise.writes_to(call[0], OutputType::Common)
                                       : elementwise.gives(OutputType::Common);
}

Autocast autocast_of(int traits) {
    return (traits & kAutocast) ? Autocast::NeutralOnCpu : Autocast::Neutral;
}

std::string both(const char* name) {
    return std::string("torch.") + name + " Tensor." + name + " special." + name;
}

}  // namespace

void add_elementwise_rules(Registry& registry) {
    for (auto [name, traits] : kUnary) {
        registry.add(both(name), "self", unary, traits, autocast_of(traits));
        registry.add(both((std::string(name) + "_").c_str()), "self", unary, traits | kInPlace, autocast_of(traits));
    }
    for (const char* name : {"abs", "absolute"}) registry.add_neutral(both(name), "self", absolute, kToReal | kNoBool);
    registry.add_neutral(both("isfinite"), "self", is_finite, kToBool | kNoGrad);
    for (auto [name, traits] : kUnaryFunctional) registry.add(both(name), "self", unary, traits, autocast_of(traits));
    registry.add_neutral("Tensor.abs_ Tensor.absolute_ torch.abs_", "self", unary,
                         kToReal | kInPlace | kNoComplex | kNoBool);
    registry.add_neutral("F.tanh F.sigmoid", "self", unary, kToFloat);
    registry.add_neutral("torch.positive Tensor.positive operator.pos Tensor.__pos__", "self", positive);
    registry.add_neutral("operator.neg Tensor.__neg__", "self", unary, kCommon | kNoBool);
    registry.add_neutral("operator.abs Tensor.__abs__ builtins.abs", "self", unary, kToReal | kNoBool);
    registry.add_neutral("operator.invert operator.inv Tensor.__invert__", "self", unary, kCommon | kIntegralOnly);

    for (auto [name, traits] : kBinary) {
        registry.add(both(name), "self other", binary, traits, autocast_of(traits));
        registry.add(both((std::string(name) + "_").c_str()), "self other", binary, traits | kInPlace,
                     autocast_of(traits));
    }
    for (auto [name, traits] : kBinaryTensors) {
        registry.add(both(name), "self other", binary_tensors, traits, autocast_of(traits));
        if (std::ranges::find(kWithoutInPlace, name) == std::end(kWithoutInPlace))
            registry.add(both((std::string(name) + "_").c_str()), "self other", binary_tensors, traits | kInPlace,
                         autocast_of(traits));
    }

    registry.add_neutral("torch.add Tensor.add", "self other * alpha?", binary_with_alpha, kCommon);
    registry.add_neutral("Tensor.add_", "self other * alpha?", binary_with_alpha, kCommon | kInPlace);
    registry.add_neutral("torch.sub Tensor.sub torch.subtract Tensor.subtract", "self other * alpha?", subtract,
                         kCommon);
    registry.add_neutral("Tensor.sub_ Tensor.subtract_", "self other * alpha?", subtract, kCommon | kInPlace);
    registry.add_neutral("torch.heaviside Tensor.heaviside", "self values", heaviside, kCommon | kNoComplex);
    registry.add_neutral("Tensor.heaviside_", "self values", heaviside, kCommon | kNoComplex | kInPlace);
    registry.add_neutral_on_cpu("torch.float_power Tensor.float_power", "self exponent", float_power, kCommon);
    registry.add_neutral_on_cpu("Tensor.float_power_", "self exponent", float_power, kCommon | kInPlace);
    registry.add_neutral_on_cpu("torch.ldexp Tensor.ldexp", "self other", load_exponent, kCommon);
    registry.add_neutral_on_cpu("torch.ldexp_ Tensor.ldexp_", "self other", load_exponent, kCommon | kInPlace);
    registry.add_neutral("torch.rsub", "self other * alpha?", swapped<subtract>, kCommon | kReflected);
    registry.add_neutral("torch.div Tensor.div torch.divide Tensor.divide", "self other * rounding_mode?", divide,
                         kToFloat);
    registry.add_neutral("Tensor.div_ Tensor.divide_", "self other * rounding_mode?", divide, kToFloat | kInPlace);
    registry.add_neutral("torch.true_divide Tensor.true_divide", "self other", divide, kToFloat);
    registry.add_neutral("Tensor.true_divide_", "self other", divide, kToFloat | kInPlace);
    registry.add_neutral_on_cpu("torch.pow Tensor.pow", "self exponent", power, kCommon | kReflected);
    registry.add_neutral_on_cpu("Tensor.pow_", "self exponent", power, kCommon | kInPlace);

    struct Operator {
        const char* name;
        RuleFunction function;
        int traits;
    };
    const Operator operators[] = {
        {"add", binary, kCommon},
        {"sub", subtract, kCommon},
        {"mul", binary, kCommon},
        {"truediv", divide, kToFloat},
        {"floordiv", binary, kCommon | kNoComplex | kNoBool},
        {"mod", binary, kCommon | kNoComplex | kNoBool},
        {"pow", power, kCommon | kAutocast},
        {"and", bitwise, kCommon | kIntegralOnly},
        {"or", bitwise, kCommon | kIntegralOnly},
        {"xor", bitwise, kCommon | kIntegralOnly},
        {"lshift", bitwise, kCommon | kIntegralOnly | kNoBool},
        {"rshift", bitwise, kCommon | kIntegralOnly | kNoBool},
    };
    for (auto [name, function, traits] : operators) {
        std::string plain(name);
        // Named so because `and` and `or` are keywords of Python.
        std::string in_operator = plain == "and" || plain == "or" ? plain + "_" : plain;
        registry.add("operator." + in_operator, "self other", function, traits | kReflected, autocast_of(traits));
        registry.add("Tensor.__" + plain + "__", "self other", function, traits, autocast_of(traits));
        registry.add("operator.i" + plain, "self other", function, traits | kReflected | kInPlace, autocast_of(traits));
        registry.add("Tensor.__i" + plain + "__", "self other", function, traits | kInPlace, autocast_of(traits));
        registry.add("Tensor.__r" + plain + "__", "self other", function, traits, autocast_of(traits));
    }
    registry.add_neutral("Tensor.__rdiv__ Tensor.__div__", "self other", divide, kToFloat);
    registry.add_neutral("Tensor.__idiv__", "self other", divide, kToFloat | kInPlace);
    registry.add_neutral("Tensor.__rsub__", "self other", swapped<subtract>, kCommon | kReflected);
    registry.add_neutral("Tensor.__rmod__", "self other", swapped<binary>, kCommon | kNoComplex | kNoBool | kReflected);
    registry.add_neutral_on_cpu("Tensor.__rpow__", "self other", swapped<power>, kCommon | kReflected);
    const Operator comparisons[] = {
        {"eq", binary, kToBool | kNoGrad},
        {"ne", binary, kToBool | kNoGrad},
        {"lt", binary, kToBool | kNoGrad | kNoComplex},
        {"le", binary, kToBool | kNoGrad | kNoComplex},
        {"gt", binary, kToBool | kNoGrad | kNoComplex},
        {"ge", binary, kToBool | kNoGrad | kNoComplex},
    };
    for (auto [name, function, traits] : comparisons) {
        registry.add(std::string("operator.") + name, "self other", function, traits | kReflected, autocast_of(traits));
        registry.add(std::string("Tensor.__") + name + "__", "self other", function, traits, autocast_of(traits));
    }
    for (const char* name : {"bitwise_and", "bitwise_or", "bitwise_xor"}) {
        registry.add_neutral(both(name), "self other", bitwise, kCommon | kIntegralOnly | kReflected);
        registry.add_neutral(std::string("Tensor.") + name + "_", "self other", bitwise,
                             kCommon | kIntegralOnly | kInPlace);
    }
    for (const char* name : {"bitwise_left_shift", "bitwise_right_shift"}) {
        registry.add_neutral(both(name), "self other", bitwise, kCommon | kIntegralOnly | kNoBool | kReflected);
        registry.add_neutral(std::string("Tensor.") + name + "_", "self other", bitwise,
                             kCommon | kIntegralOnly | kNoBool | kInPlace);
    }
}

}  // namespace stator::shape

#include "torch/calls/out_forms.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

namespace stator::torch_room {

namespace {

/// Most of these are structured: from one implementation that writes to a tensor PyTorch generates the operator that
/// allocates its result, the one with `out=` and the one in place. The others allocate, and call the same function.
constexpr auto kWithOneOverload = std::to_array<std::string_view>({"_log_softmax",
                                                                   "_softmax",
                                                                   "acos",
                                                                   "acosh",
                                                                   "addcdiv",
                                                                   "addcmul",
                                                                   "addmm",
                                                                   "amax",
                                                                   "amin",
                                                                   "argmax",
                                                                   "argmin",
                                                                   "asin",
                                                                   "asinh",
                                                                   "atan",
                                                                   "atan2",
                                                                   "atanh",
                                                                   "avg_pool2d",
                                                                   "baddbmm",
                                                                   "bitwise_not",
                                                                   "bmm",
                                                                   "cat",
                                                                   "ceil",
                                                                   "clamp",
                                                                   "clamp_max",
                                                                   "clamp_min",
                                                                   "cos",
                                                                   "cosh",
                                                                   "cumprod",
                                                                   "cumsum",
                                                                   "digamma",
                                                                   "elu",
                                                                   "erf",
                                                                   "erfc",
                                                                   "erfinv",
                                                                   "exp",
                                                                   "exp2",
                                                                   "expm1",
                                                                   "floor",
                                                                   "fmax",
                                                                   "fmin",
                                                                   "frac",
                                                                   "gather",
                                                                   "gelu",
                                                                   "glu",
                                                                   "hardshrink",
                                                                   "hardsigmoid",
                                                                   "hypot",
                                                                   "leaky_relu",
                                                                   "lgamma",
                                                                   "log",
                                                                   "log10",
                                                                   "log1p",
                                                                   "log2",
                                                                   "logaddexp",
                                                                   "maximum",
                                                                   "minimum",
                                                                   "mish",
                                                                   "mm",
                                                                   "mse_loss",
                                                                   "neg",
                                                                   "reciprocal",
                                                                   "round",
                                                                   "rsqrt",
                                                                   "sgn",
                                                                   "sigmoid",
                                                                   "sign",
                                                                   "silu",
                                                                   "sin",
                                                                   "sinc",
                                                                   "sinh",
                                                                   "smooth_l1_loss",
                                                                   "softplus",
                                                                   "softshrink",
                                                                   "sqrt",
                                                                   "tan",
                                                                   "tanh",
                                                                   "threshold",
                                                                   "tril",
                                                                   "triu",
                                                                   "trunc"});
static_assert(std::ranges::is_sorted(kWithOneOverload));

/// An overload of an operator, and the one that writes.
struct Overloads {
    std::string_view name, overload, writing;
};
constexpr auto kWithSeveralOverloads = std::to_array<Overloads>({{"add", "Tensor", "out"},
                                                                 {"bitwise_and", "Tensor", "Tensor_out"},
                                                                 {"bitwise_or", "Tensor", "Tensor_out"},
                                                                 {"bitwise_xor", "Tensor", "Tensor_out"},
                                                                 {"clamp", "Tensor", "Tensor_out"},
                                                                 {"div", "Tensor", "out"},
                                                                 {"div", "Tensor_mode", "out_mode"},
                                                                 {"eq", "Scalar", "Scalar_out"},
                                                                 {"eq", "Tensor", "Tensor_out"},
                                                                 {"fmod", "Tensor", "Tensor_out"},
                                                                 {"ge", "Scalar", "Scalar_out"},
                                                                 {"ge", "Tensor", "Tensor_out"},
                                                                 {"gt", "Scalar", "Scalar_out"},
                                                                 {"gt", "Tensor", "Tensor_out"},
                                                                 {"le", "Scalar", "Scalar_out"},
                                                                 {"le", "Tensor", "Tensor_out"},
                                                                 {"lerp", "Scalar", "Scalar_out"},
                                                                 {"lerp", "Tensor", "Tensor_out"},
                                                                 {"lt", "Scalar", "Scalar_out"},
                                                                 {"lt", "Tensor", "Tensor_out"},
                                                                 {"max", "dim", "dim_max"},
                                                                 {"mean", "dim", "out"},
                                                                 {"min", "dim", "dim_min"},
                                                                 {"mul", "Tensor", "out"},
                                                                 {"ne", "Scalar", "Scalar_out"},
                                                                 {"ne", "Tensor", "Tensor_out"},
                                                                 {"pow", "Scalar", "Scalar_out"},
                                                                 {"pow", "Tensor_Scalar", "Tensor_Scalar_out"},
                                                                 {"pow", "Tensor_Tensor", "Tensor_Tensor_out"},
                                                                 {"remainder", "Tensor", "Tensor_out"},
                                                                 {"std", "correction", "correction_out"},
                                                                 {"sub", "Tensor", "out"},
                                                                 {"sum", "dim_IntList", "IntList_out"},
                                                                 {"var", "correction", "correction_out"},
                                                                 {"where", "self", "self_out"}});

std::string_view bare_name(const Call& call) {
    std::string_view name = call.operation.schema().name();
    constexpr std::string_view kPrefix = "aten::";
    if (!name.starts_with(kPrefix)) return {};
    return name.substr(kPrefix.size());
}

std::optional<c10::OperatorHandle> find_out(const Call& call) {
    const std::string& name = call.operation.schema().name();
    const std::string& overload = call.operation.schema().overload_name();
    const std::string_view bare = bare_name(call);
    if (bare.empty()) return std::nullopt;
    if (overload.empty() && std::ranges::binary_search(kWithOneOverload, bare))
        return c10::Dispatcher::singleton().findSchema({name, "out"});
    const auto found = std::ranges::find_if(
        kWithSeveralOverloads, [&](const Overloads& one) { return one.name == bare && one.overload == overload; });
    if (found == kWithSeveralOverloads.end()) return std::nullopt;
    return c10::Dispatcher::singleton().findSchema({name, std::string(found->writing)});
}

Slot tensor_slot(std::uint32_t value) {
    return Slot{Slot::Kind::Tensor, value, {}, {}, {}};
}

Slot constant_slot(c10::IValue value) {
    return Slot{Slot::Kind::Constant, kNoValue, std::move(value), {}, {}};
}

/// The same arguments, and the results at the end.
bool takes_results_last(const c10::FunctionSchema& schema, const c10::FunctionSchema& out, std::size_t results) {
    const auto &given = schema.arguments(), &taken = out.arguments();
    if (taken.size() != given.size() + results) return false;
    auto same = [](const c10::Argument& a, const c10::Argument& b) {
        return a.name() == b.name() && *a.real_type() == *b.real_type();
    };
    auto is_written = [](const c10::Argument& one) {
        return one.alias_info() != nullptr && one.alias_info()->isWrite();
    };
    const auto rest = taken.begin() + static_cast<std::ptrdiff_t>(given.size());
    return std::equal(given.begin(), given.end(), taken.begin(), same) && std::all_of(rest, taken.end(), is_written);
}

/// A number as the operators wrap it.
c10::IValue wrapped(const at::Scalar& number) {
    at::Tensor tensor = c10::scalar_to_tensor(number);
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
}

/// A comparison with a number makes a tensor of the number each time.
std::optional<Call> comparison(const Call& call) {
    static constexpr auto kComparisons = std::to_array<std::string_view>({"eq", "ge", "gt", "le", "lt", "ne"});
    if (call.operation.schema().overload_name() != "Scalar" || call.slots.size() != 2) return std::nullopt;
    if (!std::ranges::binary_search(kComparisons, bare_name(call)) || !call.slots[1].constant.isScalar())
        return std::nullopt;
    auto operation = c10::Dispatcher::singleton().findSchema({call.operation.schema().name(), "Tensor_out"});
    if (!operation) return std::nullopt;
    Call form{.operation = *operation, .level = Level::BelowViewTracking};
    form.slots = {call.slots[0], constant_slot(wrapped(call.slots[1].constant.toScalar())),
                  tensor_slot(call.results[0])};
    return form;
}

/// `relu` calls `clamp_min`, and copies are writes to what was allocated for them.
std::optional<Call> other_form(const Call& call) {
    if (std::optional<Call> form = comparison(call)) return form;
    const std::string_view bare = bare_name(call);
    const bool is_copy = bare == "clone" || bare == "_to_copy";
    if (bare != "relu" && !is_copy) return std::nullopt;
    if (call.results.size() != 1 || call.slots[0].kind != Slot::Kind::Tensor) return std::nullopt;
    const char* const overload = is_copy ? "" : "out";
    auto operation = c10::Dispatcher::singleton().findSchema({is_copy ? "aten::copy_" : "aten::clamp_min", overload});
    if (!operation) return std::nullopt;
    Call form{.operation = *operation, .level = Level::BelowViewTracking};
    if (is_copy)
        form.slots = {tensor_slot(call.results[0]), call.slots[0], constant_slot(false)};
    else
        form.slots = {call.slots[0], constant_slot(std::int64_t{0}), tensor_slot(call.results[0])};
    return form;
}

}  // namespace

std::optional<Call> out_form(const Call& call) {
    std::optional<Call> form = other_form(call);
    if (!form) {
        const std::optional<c10::OperatorHandle> out = find_out(call);
        if (!out || !takes_results_last(call.operation.schema(), out->schema(), call.results.size()))
            return std::nullopt;
        form = Call{.operation = *out, .slots = call.slots, .level = Level::BelowViewTracking};
        for (std::uint32_t result : call.results) form->slots.push_back(tensor_slot(result));
    }
    form->results = call.results;
    if (!has_kernel_of_pytorch(call.operation) || !has_kernel_of_pytorch(form->operation)) return std::nullopt;
    find_direct_call(*form);
    return form;
}

namespace {

/// Not by PyTorch's allocator: what a program has there at its peak is not more than uncompiled.
at::Tensor number_as(const at::Tensor& number, at::ScalarType dtype) {
    auto* const data = new std::int64_t(0);
    const at::Scalar value = number.item();
    const auto put = [&](auto converted) { std::memcpy(data, &converted, sizeof converted); };
    if (dtype == at::kFloat) put(static_cast<float>(value.toDouble()));
    if (dtype == at::kDouble) put(value.toDouble());
    if (dtype == at::kLong) put(value.toLong());
    if (dtype == at::kInt) put(static_cast<std::int32_t>(value.toLong()));
    auto drop = [](void* context) { delete static_cast<std::int64_t*>(context); };
    c10::Storage storage(c10::Storage::use_byte_size_t(), c10::elementSize(dtype),
                         c10::DataPtr(data, data, drop, c10::Device(c10::kCPU)));
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(at::IntArrayRef(), at::IntArrayRef());
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
}

}  // namespace

bool cast_numbers(Call& call, const at::Tensor* values) {
    std::optional<at::ScalarType> dtype;
    bool is_same = true, has_cast = false;
    for (const Slot& slot : call.slots) {
        if (slot.kind != Slot::Kind::Tensor || std::ranges::find(call.results, slot.value) != call.results.end())
            continue;
        const at::ScalarType one = values[slot.value].scalar_type();
        is_same &= !dtype || *dtype == one;
        dtype = one;
    }
    // Kernels of other dtypes read what the number was before.
    const bool is_plain = dtype == at::kFloat || dtype == at::kDouble || dtype == at::kLong || dtype == at::kInt;
    if (!dtype || !is_same || !is_plain) return false;
    for (Slot& slot : call.slots) {
        if (slot.kind != Slot::Kind::Constant || !slot.constant.isTensor()) continue;
        const at::Tensor& number = slot.constant.toTensor();
        if (!number.defined() || number.scalar_type() == *dtype || number.is_complex()) continue;
        if (number.is_floating_point() && !c10::isFloatingType(*dtype)) continue;
        slot.constant = number_as(number, *dtype);
        has_cast = true;
    }
    return has_cast;
}

bool may_overwrite_operand(const Call& call) {
    const c10::OperatorName& name = call.operation.operator_name();
    return call.operation.hasTag(at::Tag::pointwise) && call.results.size() == 1 &&
           c10::Dispatcher::singleton().findSchema({name.name + "_", name.overload_name}).has_value();
}

bool has_kernel_of_pytorch(const c10::OperatorHandle& operation) {
    if (!operation.schema().name().starts_with("aten::")) return false;
    if (!operation.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return false;
    const std::string site = operation.getComputedKernelForDispatchKey(c10::DispatchKey::CPU).debug();
    return site.find("aten/src/ATen/Register") != std::string::npos;
}

}  // namespace stator::torch_room

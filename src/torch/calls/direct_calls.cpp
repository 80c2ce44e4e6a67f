/// Calls of operators by their C++ signatures. The general way goes by a stack of `IValue`s: each argument is wrapped,
/// counted and unwrapped, and lists of sizes are copied, which takes as long as the rest of a small call.
#include <ATen/core/jit_type.h>

#include <tuple>
#include <unordered_map>
#include <utility>

#include "torch/calls/operator_call.h"

namespace stator::torch_room {

namespace {

using c10::TypeKind;

bool has_kind(const c10::Argument& argument, TypeKind kind) {
    return argument.real_type()->kind() == kind;
}

bool is_optional(const c10::Argument& argument, TypeKind kind) {
    return has_kind(argument, TypeKind::OptionalType) &&
           argument.real_type()->expectRef<c10::OptionalType>().getElementType()->kind() == kind;
}

bool is_list(const c10::Argument& argument, TypeKind kind) {
    return has_kind(argument, TypeKind::ListType) &&
           argument.real_type()->expectRef<c10::ListType>().getElementType()->kind() == kind;
}

bool is_written(const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// How an argument of a C++ type is declared in a schema, and how it is read.
template <class Type>
struct Read;

template <>
struct Read<const at::Tensor&> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return has_kind(argument, TypeKind::TensorType) && !is_written(argument) &&
               (slot.kind == Slot::Kind::Tensor || slot.constant.isTensor());
    }
    static const at::Tensor& get(const Slot& slot, at::Tensor* values) {
        return slot.kind == Slot::Kind::Tensor ? values[slot.value] : slot.constant.toTensor();
    }
};

template <>
struct Read<at::Tensor&> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return has_kind(argument, TypeKind::TensorType) && is_written(argument) && slot.kind == Slot::Kind::Tensor;
    }
    static at::Tensor& get(const Slot& slot, at::Tensor* values) { return values[slot.value]; }
};

template <>
struct Read<const std::optional<at::Tensor>&> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return is_optional(argument, TypeKind::TensorType) &&
               (slot.kind == Slot::Kind::Tensor || slot.constant.isNone());
    }
    static std::optional<at::Tensor> get(const Slot& slot, at::Tensor* values) {
        return slot.kind == Slot::Kind::Tensor ? std::optional<at::Tensor>(values[slot.value]) : std::nullopt;
    }
};

template <>
struct Read<const at::Scalar&> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return has_kind(argument, TypeKind::NumberType) && slot.kind == Slot::Kind::Constant &&
               slot.constant.isScalar();
    }
    static at::Scalar get(const Slot& slot, at::Tensor*) { return slot.constant.toScalar(); }
};

template <>
struct Read<std::int64_t> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return has_kind(argument, TypeKind::IntType) && slot.constant.isInt();
    }
    static std::int64_t get(const Slot& slot, at::Tensor*) { return slot.constant.toInt(); }
};

template <>
struct Read<c10::SymInt> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return has_kind(argument, TypeKind::SymIntType) && slot.constant.isInt();
    }
    static c10::SymInt get(const Slot& slot, at::Tensor*) { return c10::SymInt(slot.constant.toInt()); }
};

template <>
struct Read<std::optional<c10::SymInt>> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return is_optional(argument, TypeKind::SymIntType) && (slot.constant.isInt() || slot.constant.isNone()) &&
               slot.kind == Slot::Kind::Constant;
    }
    static std::optional<c10::SymInt> get(const Slot& slot, at::Tensor*) {
        return slot.constant.isNone() ? std::nullopt : std::optional<c10::SymInt>(slot.constant.toInt());
    }
};

template <>
struct Read<double> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return has_kind(argument, TypeKind::FloatType) && slot.constant.isDouble();
    }
    static double get(const Slot& slot, at::Tensor*) { return slot.constant.toDouble(); }
};

template <>
struct Read<std::optional<double>> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return is_optional(argument, TypeKind::FloatType) && slot.kind == Slot::Kind::Constant &&
               (slot.constant.isDouble() || slot.constant.isNone());
    }
    static std::optional<double> get(const Slot& slot, at::Tensor*) {
        return slot.constant.isNone() ? std::nullopt : std::optional<double>(slot.constant.toDouble());
    }
};

template <>
struct Read<bool> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return has_kind(argument, TypeKind::BoolType) && slot.constant.isBool();
    }
    static bool get(const Slot& slot, at::Tensor*) { return slot.constant.toBool(); }
};

template <>
struct Read<std::string_view> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return has_kind(argument, TypeKind::StringType) && slot.constant.isString();
    }
    static std::string_view get(const Slot& slot, at::Tensor*) { return slot.constant.toStringView(); }
};

template <>
struct Read<std::optional<at::ScalarType>> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return is_optional(argument, TypeKind::ScalarTypeType) && slot.kind == Slot::Kind::Constant &&
               (slot.constant.isInt() || slot.constant.isNone());
    }
    static std::optional<at::ScalarType> get(const Slot& slot, at::Tensor*) {
        return slot.constant.isNone() ? std::nullopt : std::optional<at::ScalarType>(slot.constant.toScalarType());
    }
};

template <>
struct Read<at::IntArrayRef> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return is_list(argument, TypeKind::IntType) && slot.constant.isIntList();
    }
    static at::IntArrayRef get(const Slot& slot, at::Tensor*) { return slot.integers; }
};

template <>
struct Read<at::OptionalIntArrayRef> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        if (!has_kind(argument, TypeKind::OptionalType)) return false;
        const auto& element = argument.real_type()->expectRef<c10::OptionalType>().getElementType();
        return element->kind() == TypeKind::ListType &&
               element->expectRef<c10::ListType>().getElementType()->kind() == TypeKind::IntType &&
               (slot.constant.isIntList() || slot.constant.isNone()) && slot.kind == Slot::Kind::Constant;
    }
    static at::OptionalIntArrayRef get(const Slot& slot, at::Tensor*) {
        if (slot.constant.isNone()) return std::nullopt;
        return at::OptionalIntArrayRef(at::IntArrayRef(slot.integers));
    }
};

template <>
struct Read<c10::SymIntArrayRef> {
    static bool matches(const c10::Argument& argument, const Slot& slot) {
        return is_list(argument, TypeKind::SymIntType) && slot.constant.isIntList() &&
               std::ranges::all_of(slot.integers, [](std::int64_t size) { return size >= -1; });
    }
    static c10::SymIntArrayRef get(const Slot& slot, at::Tensor*) {
        return c10::fromIntArrayRefUnchecked(slot.integers);
    }
};

/// How results are declared in a schema, and how they are stored.
template <class Type>
struct Store;

bool returns_tensors(const c10::FunctionSchema& schema, std::size_t count) {
    return schema.returns().size() == count && std::ranges::all_of(schema.returns(), [](const c10::Argument& each) {
               return has_kind(each, TypeKind::TensorType);
           });
}

template <>
struct Store<at::Tensor> {
    static bool matches(const c10::FunctionSchema& schema) {
        return returns_tensors(schema, 1) && !is_written(schema.returns()[0]);
    }
    static void put(at::Tensor result, const Call& call, at::Tensor* values) {
        values[call.results[0]] = std::move(result);
    }
};

template <>
struct Store<at::Tensor&> {
    static bool matches(const c10::FunctionSchema& schema) {
        return returns_tensors(schema, 1) && is_written(schema.returns()[0]);
    }
    static void put(at::Tensor& result, const Call& call, at::Tensor* values) {
        if (&result != &values[call.results[0]]) values[call.results[0]] = result;
    }
};

template <class... Tensors>
struct Store<std::tuple<Tensors...>> {
    static bool matches(const c10::FunctionSchema& schema) { return returns_tensors(schema, sizeof...(Tensors)); }
    static void put(std::tuple<Tensors...> result, const Call& call, at::Tensor* values) {
        std::apply(
            [&](auto&... tensors) {
                std::size_t i = 0;
                ((values[call.results[i++]] = std::move(tensors)), ...);
            },
            result);
    }
};

template <class Signature>
struct Direct;

template <class Result, class... Arguments>
struct Direct<Result(Arguments...)> {
    using Typed = c10::TypedOperatorHandle<Result(Arguments...)>;

    template <std::size_t... kIndex>
    static bool matches(const Call& call, std::index_sequence<kIndex...>) {
        const c10::FunctionSchema& schema = call.operation.schema();
        return schema.arguments().size() == sizeof...(Arguments) && Store<Result>::matches(schema) &&
               (Read<Arguments>::matches(schema.arguments()[kIndex], call.slots[kIndex]) && ...);
    }
    template <std::size_t... kIndex>
    static void invoke(const Call& call, at::Tensor* values, std::index_sequence<kIndex...>) {
        const Slot* const slots = call.slots.data();
        Store<Result>::put(
            static_cast<const Typed*>(call.typed.get())->call(Read<Arguments>::get(slots[kIndex], values)...), call,
            values);
    }
    static void invoke(const Call& call, at::Tensor* values) {
        invoke(call, values, std::index_sequence_for<Arguments...>());
    }
    static bool take(Call& call) {
        if (!matches(call, std::index_sequence_for<Arguments...>())) return false;
        call.typed = std::make_shared<Typed>(call.operation.typed<Result(Arguments...)>());
        call.direct = invoke;
        return true;
    }
};

using In = const at::Tensor&;
using MaybeIn = const std::optional<at::Tensor>&;
using Out = at::Tensor;
using Written = at::Tensor&;
using Number = const at::Scalar&;
using Int = std::int64_t;
using Sizes = c10::SymIntArrayRef;
using Dtype = std::optional<at::ScalarType>;

template <class... Signatures>
bool take_first(Call& call) {
    return (Direct<Signatures>::take(call) || ...);
}

}  // namespace

void find_direct_call(Call& call) {
    if (call.returns_list) return;
    take_first<
        // Elementwise operations and products.
        Out(In), Out(In, In), Out(In, In, Number), Out(In, Number), Out(In, Number, Number), Out(In, In, In),
        Out(In, In, In, Number, Number), Out(In, In, In, Number), Out(Number, In), Out(In, std::string_view),
        // Written in place.
        Written(Written), Written(Written, In), Written(Written, In, Number), Written(Written, Number),
        Written(Written, In, bool),
        // Written to a tensor that is given.
        Written(In, Written), Written(In, In, Written), Written(In, In, Number, Written), Written(In, Number, Written),
        Written(In, Number, Number, Written), Written(In, In, In, Written), Written(In, std::string_view, Written),
        Written(In, In, In, Number, Number, Written), Written(In, In, In, Number, Written),
        Written(Number, In, Written), Written(In, Int, bool, Written), Written(In, Int, Dtype, Written),
        Written(In, at::IntArrayRef, bool, Written), Written(In, at::OptionalIntArrayRef, bool, Dtype, Written),
        // Views.
        Out(In, Int), Out(In, Int, Int), Out(In, Int, c10::SymInt), Out(In, Sizes), Out(In, at::IntArrayRef),
        Out(In, Sizes, bool), Out(In, Int, std::optional<c10::SymInt>, std::optional<c10::SymInt>, c10::SymInt),
        Out(In, Int, Int, Int), Out(In, Sizes, Sizes),
        // Reductions.
        Out(In, Dtype), Out(In, Int, Dtype), Out(In, Int, bool), Out(In, at::OptionalIntArrayRef, bool, Dtype),
        std::tuple<Out, Out>(In, Int, bool),
        // Layers.
        Out(In, In, MaybeIn), Out(In, In, MaybeIn, Sizes, Sizes, Sizes, c10::SymInt),
        Out(In, In, MaybeIn, Sizes, Sizes, Sizes, bool, Sizes, c10::SymInt),
        std::tuple<Out, Out, Out>(In, Sizes, MaybeIn, MaybeIn, double), Out(In, Sizes, MaybeIn, MaybeIn, double, bool),
        Out(In, In, c10::SymInt, bool, bool),
        std::tuple<Out, Out>(In, In, In, double, bool, MaybeIn, std::optional<double>),
        Out(In, In, In, MaybeIn, double, bool, std::optional<double>, bool),
        std::tuple<Out, Out, Out>(In, MaybeIn, MaybeIn, MaybeIn, MaybeIn, bool, double, double),
        Out(In, MaybeIn, MaybeIn, MaybeIn, MaybeIn, bool, double, double, bool)>(call);
}

}  // namespace stator::torch_room

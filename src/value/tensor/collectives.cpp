#include "value/tensor/collectives.h"

#include <array>
#include <string>
#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "source/query.h"
#include "torch/dtypes.h"
#include "value/kinds/function.h"
#include "value/kinds/sequence.h"
#include "value/kinds/weak.h"
#include "value/protocol/operations.h"
#include "value/tensor/tensor.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

// --- process groups

/// The process group, guarded by identity, which does not keep it alive; null if the value is none.
PyObject* group_of(Tracer& tracer, Value* value) {
    static PyTypeObject* const group_class = imported_class("torch._C._distributed_c10d", "ProcessGroup");
    PyObject* const group = value == nullptr ? nullptr : value->object();
    if (group == nullptr || PyType_IsSubtype(Py_TYPE(group), group_class) == 0) return nullptr;
    if (value->source != nullptr && guard_weakly(tracer, value) == nullptr)
        tracer.guard({GuardKind::Identity, value->source, group});
    return group;
}

/// Attributes and methods that give the same for as long as the group lives.
constexpr std::array kMethods = {"ProcessGroup.size", "ProcessGroup.rank", "ProcessGroup.name"};
constexpr std::array kAttributes = {"ProcessGroup.group_name", "ProcessGroup.group_desc"};

Outcome ask_group(Tracer& tracer, const Arguments& arguments, const std::string& name, bool is_method) {
    PyObject* const group =
        arguments.count() == 1 && !arguments.positional.empty() ? group_of(tracer, arguments.positional[0]) : nullptr;
    if (group == nullptr) tracer.break_graph(BreakKind::UnknownFunction, name + " is called without a process group");
    const std::string last = name.substr(name.find('.') + 1);
    Ref<> answer = Ref<>::steal(PyObject_GetAttrString(group, last.c_str()));
    if (answer && is_method) answer = Ref<>::steal(PyObject_CallNoArgs(answer.get()));
    if (!answer) tracer.raise_from_python();
    return tracer.fresh(std::move(answer));
}

template <std::size_t I>
Outcome method_of_group(Tracer& tracer, const Arguments& arguments) {
    return ask_group(tracer, arguments, kMethods[I], true);
}

template <std::size_t I>
Outcome attribute_of_group(Tracer& tracer, const Arguments& arguments) {
    return ask_group(tracer, arguments, kAttributes[I], false);
}

/// The group with a name. A name may be given to another group, after the first one was destroyed.
Outcome group_by_name(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const resolve = imported("torch._C._distributed_c10d", "_resolve_process_group");
    const bool has_name = arguments.count() == 1 && arguments.positional.size() == 1;
    Ref<> name = has_name ? arguments.positional[0]->as_constant(tracer) : Ref<>();
    if (!name || !PyUnicode_Check(name.get()))
        tracer.break_graph(BreakKind::UnknownFunction, "a process group is looked up by something else than its name");
    PyObject* const kept = tracer.keep(std::move(name));
    Answer answer = ask(tracer.provenance(), resolve, kept);
    if (!answer.object)
        tracer.break_graph(BreakKind::UnknownFunction, "a process group is looked up by a name that none has");
    Value* group = tracer.outside(answer.source, answer.object.get());
    if (group_of(tracer, group) == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction, "a process group is looked up by a name that none has");
    return group;
}

// --- collectives

constexpr const char* kEager = "torch.distributed.distributed_c10d";
constexpr const char* kFunctional = "torch.distributed._functional_collectives";

/// The arguments of a call, by what they are.
struct Collective {
    const char* name;
    Value *output = nullptr, *input = nullptr;  // one of them where it is written in place
    Value *operation = nullptr, *group = nullptr, *is_asynchronous = nullptr;
};

[[noreturn]] void refuse(Tracer& tracer, const Collective& call, const char* why) {
    tracer.break_graph(BreakKind::UnknownFunction,
                       std::string("the collective torch.distributed.") + call.name + " is called " + why);
}

TensorValue* tensor_of(Tracer& tracer, const Collective& call, Value* value) {
    tracer.realize(value);
    auto* tensor = cast<TensorValue>(value);
    if (tensor == nullptr) refuse(tracer, call, "with other objects than tensors");
    if (torch_room::is_complex(tensor->meta->dtype)) refuse(tracer, call, "with complex tensors");
    // The collective is no operation of autograd when it writes to a tensor, and the functional one is.
    if (tensor->meta->requires_grad && tracer.modes().current().grad)
        refuse(tracer, call, "with tensors that need gradients");
    return tensor;
}

/// Whether the first dimension of `large` is `count` times that of `small`, and the others are equal.
bool is_multiple(const TensorValue* large, const TensorValue* small, std::int64_t count) {
    const auto &many = large->meta->sizes, &one = small->meta->sizes;
    if (many.size() != one.size() || one.size() == 0 || !(many[0] == one[0] * Dim(count))) return false;
    for (std::size_t i = 1; i < one.size(); ++i)
        if (!(many[i] == one[i])) return false;
    return true;
}

bool has_same_sizes(const TensorValue* left, const TensorValue* right) {
    const auto &ours = left->meta->sizes, &theirs = right->meta->sizes;
    if (ours.size() != theirs.size()) return false;
    for (std::size_t i = 0; i < ours.size(); ++i)
        if (!(ours[i] == theirs[i])) return false;
    return true;
}

/// The number of ranks of its group, which is guarded.
std::int64_t expect_synchronous(Tracer& tracer, const Collective& call) {
    if (call.is_asynchronous != nullptr) {
        tracer.realize(call.is_asynchronous);
        if (call.is_asynchronous->object() != Py_False) refuse(tracer, call, "with async_op=True");
    }
    Ref<> group;
    if (call.group != nullptr && call.group->object() != Py_None) {
        group = Ref<>::share(group_of(tracer, call.group));
        if (!group) refuse(tracer, call, "with a group that this process is not in");
    } else {
        // The functional form reads it too, with guards.
        group = find_imported(kEager, "GroupMember.WORLD");
        if (!group || group.get() == Py_None) refuse(tracer, call, "before a process group was made");
    }
    Ref<> size = checked(PyObject_CallMethod(group.get(), "size", nullptr));
    return PyLong_AsLongLong(size.get());
}

/// The operation as functional collectives name it.
Value* operation_of(Tracer& tracer, const Collective& call) {
    static PyObject* const names = imported(kFunctional, "REDUCE_OP_TO_STR");
    static PyObject* const sum = imported(kEager, "ReduceOp.SUM");
    PyObject* operation = sum;
    if (call.operation != nullptr) {
        tracer.realize(call.operation);
        operation = call.operation->object();
        if (operation != nullptr && call.operation->source != nullptr)
            tracer.guard({GuardKind::Identity, call.operation->source, operation});
    }
    PyObject* name = operation == nullptr ? nullptr : PyDict_GetItemWithError(names, operation);
    PyErr_Clear();
    if (name == nullptr) refuse(tracer, call, "with a reduction that functional collectives do not have");
    return tracer.constant(name);
}

/// The function of PyTorch that a collective is replaced by.
Value* replacement_of(Tracer& tracer, const Collective& call) {
    static PyObject* const table = imported(kFunctional, "traceable_collective_remaps");
    Ref<> function = find_imported(kEager, call.name);
    PyObject* found = function ? PyDict_GetItemWithError(table, function.get()) : nullptr;
    PyErr_Clear();
    if (found == nullptr) refuse(tracer, call, "which functional collectives do not replace in this PyTorch");
    return tracer.outside(tracer.provenance().pinned(found), found);
}

Task call_functional(Tracer& tracer, Value* replacement, Arguments arguments) {
    co_await operations::call(tracer, replacement, arguments);
    co_return tracer.none();
}

Outcome replaced(Tracer& tracer, const Collective& call, std::vector<Value*> positional) {
    Arguments arguments;
    arguments.positional = std::move(positional);
    if (call.group != nullptr) arguments.keywords.push_back({interned("group"), call.group});
    return tracer.start(call_functional(tracer, replacement_of(tracer, call), std::move(arguments)));
}

/// A function that is deprecated warns, and calls another one: it is inlined.
Outcome if_not_deprecated(Tracer& tracer, const char* name, const Arguments& arguments, Handler handler) {
    PyObject* const function = tracer.keep(find_imported(kEager, name));
    if (PyObject_HasAttrString(function, "__deprecated__") == 0) return handler(tracer, arguments);
    Value* value = tracer.outside(tracer.provenance().pinned(function), function);
    return tracer.push_call(static_cast<FunctionValue*>(value), arguments);
}

Outcome all_reduce(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "all_reduce", arguments, {"tensor", "op", "group", "async_op"}, 1);
    const Collective call{"all_reduce", bound[0], nullptr, bound[1], bound[2], bound[3]};
    expect_synchronous(tracer, call);
    tensor_of(tracer, call, call.output);
    return replaced(tracer, call, {call.output, operation_of(tracer, call)});
}

Outcome gather(Tracer& tracer, const char* name, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, name, arguments, {"output_tensor", "input_tensor", "group", "async_op"}, 2);
    const Collective call{name, bound[0], bound[1], nullptr, bound[2], bound[3]};
    const std::int64_t ranks = expect_synchronous(tracer, call);
    if (!is_multiple(tensor_of(tracer, call, call.output), tensor_of(tracer, call, call.input), ranks))
        refuse(tracer, call, "with an output that is not the inputs of all ranks one after the other");
    return replaced(tracer, call, {call.output, call.input});
}

Outcome all_gather_single(Tracer& tracer, const Arguments& arguments) {
    return gather(tracer, "all_gather_single", arguments);
}

Outcome all_gather_into_tensor(Tracer& tracer, const Arguments& arguments) {
    return if_not_deprecated(tracer, "all_gather_into_tensor", arguments, [](Tracer& t, const Arguments& given) {
        return gather(t, "all_gather_into_tensor", given);
    });
}

Outcome reduce(Tracer& tracer, const char* name, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, name, arguments, {"output", "input", "op", "group", "async_op"}, 2);
    const Collective call{name, bound[0], bound[1], bound[2], bound[3], bound[4]};
    const std::int64_t ranks = expect_synchronous(tracer, call);
    if (!is_multiple(tensor_of(tracer, call, call.input), tensor_of(tracer, call, call.output), ranks))
        refuse(tracer, call, "with an input that is not the outputs of all ranks one after the other");
    return replaced(tracer, call, {call.output, call.input, operation_of(tracer, call)});
}

Outcome reduce_scatter_single(Tracer& tracer, const Arguments& arguments) {
    return reduce(tracer, "reduce_scatter_single", arguments);
}

Outcome reduce_scatter_tensor(Tracer& tracer, const Arguments& arguments) {
    return if_not_deprecated(tracer, "reduce_scatter_tensor", arguments, [](Tracer& t, const Arguments& given) {
        return reduce(t, "reduce_scatter_tensor", given);
    });
}

Outcome all_to_all_single(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "all_to_all_single", arguments,
                              {"output", "input", "output_split_sizes", "input_split_sizes", "group", "async_op"}, 2);
    const Collective call{"all_to_all_single", bound[0], bound[1], nullptr, bound[4], bound[5]};
    expect_synchronous(tracer, call);
    for (Value* sizes : {bound[2], bound[3]})
        if (sizes != nullptr && sizes->object() != Py_None) refuse(tracer, call, "with sizes of the parts");
    if (!has_same_sizes(tensor_of(tracer, call, call.output), tensor_of(tracer, call, call.input)))
        refuse(tracer, call, "with an output of another size than the input");
    return replaced(tracer, call, {call.output, call.input});
}

Outcome all_gather(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "all_gather", arguments, {"tensor_list", "tensor", "group", "async_op"}, 2);
    const Collective call{"all_gather", bound[0], bound[1], nullptr, bound[2], bound[3]};
    const auto ranks = static_cast<std::size_t>(expect_synchronous(tracer, call));
    const TensorValue* input = tensor_of(tracer, call, call.input);
    tracer.realize(call.output);
    SequenceValue* outputs = as_sequence(call.output);
    if (outputs == nullptr) refuse(tracer, call, "without a list of tensors");
    const std::vector<Value*> all = outputs->all(tracer);
    if (all.size() != ranks || input->meta->sizes.size() == 0)
        refuse(tracer, call, "with another number of outputs than ranks, or with a tensor without dimensions");
    for (Value* output : all)
        if (!has_same_sizes(tensor_of(tracer, call, output), input))
            refuse(tracer, call, "with outputs of another size than the input");
    return replaced(tracer, call, {call.output, call.input});
}

template <std::size_t... I>
void add_methods(Handlers& handlers, std::index_sequence<I...>) {
    (handlers.add_once_imported("torch._C._distributed_c10d", kMethods[I], method_of_group<I>), ...);
}

template <std::size_t... I>
void add_attributes(Handlers& handlers, std::index_sequence<I...>) {
    static const auto* const getters = new std::array{std::string(kAttributes[I]) + ".fget" ...};
    (handlers.add_once_imported("torch._C._distributed_c10d", (*getters)[I].c_str(), attribute_of_group<I>), ...);
}

}  // namespace

void register_collectives(Handlers& handlers) {
    add_methods(handlers, std::make_index_sequence<kMethods.size()>());
    add_attributes(handlers, std::make_index_sequence<kAttributes.size()>());
    handlers.add_once_imported("torch._C._distributed_c10d", "_resolve_process_group", group_by_name);
    handlers.add_once_imported(kEager, "all_reduce", all_reduce);
    handlers.add_once_imported(kEager, "all_gather", all_gather);
    handlers.add_once_imported(kEager, "all_gather_single", all_gather_single);
    handlers.add_once_imported(kEager, "all_gather_into_tensor", all_gather_into_tensor);
    handlers.add_once_imported(kEager, "reduce_scatter_single", reduce_scatter_single);
    handlers.add_once_imported(kEager, "reduce_scatter_tensor", reduce_scatter_tensor);
    handlers.add_once_imported(kEager, "all_to_all_single", all_to_all_single);
}

}  // namespace stator

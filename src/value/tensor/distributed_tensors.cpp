#include "value/tensor/distributed_tensors.h"

#include <string>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/known.h"
#include "torch/wrappers.h"
#include "value/builtins/builtin.h"
#include "value/kinds/constant.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/tensor/collectives.h"
#include "value/tensor/subclasses.h"
#include "value/tensor/tensor.h"
#include "value/tensor/torch_function.h"

namespace stator {

namespace {

/// An argument that is part of the node: a constant, an opaque object, or a sequence of those. Guards it.
Ref<> constant_of(Tracer& tracer, Value* value) {
    tracer.realize(value);
    PyObject* const object = value->object();
    if (object != nullptr && torch_room::is_opaque_class(Py_TYPE(object))) {
        if (value->source != nullptr) tracer.guard({GuardKind::Identity, value->source, object});
        return Ref<>::share(object);
    }
    if (SequenceValue* sequence = as_sequence(value)) {
        Ref<> list = checked(PyList_New(0));
        for (Value* item : sequence->all(tracer)) checked(PyList_Append(list.get(), constant_of(tracer, item).get()));
        if (value->type() == &PyList_Type) return list;
        Ref<> tuple = checked(PyList_AsTuple(list.get()));
        if (value->type() == &PyTuple_Type) return tuple;
        if (value->type() == torch_room::known().size_class)
            return checked(
                PyObject_CallOneArg(reinterpret_cast<PyObject*>(torch_room::known().size_class), tuple.get()));
    }
    if (Ref<> constant = value->as_constant(tracer)) return constant;
    tracer.break_graph(BreakKind::UnsupportedTensor,
                       "a " + type_name(value->type()) + " is an argument of an operation on a DTensor");
}

/// A call of a function or method of DTensor, by its name, as a node. Its first argument is a tensor.
Outcome call_as_node(Tracer& tracer, const char* name, const Arguments& arguments) {
    static PyObject* const made = imported("stator.wrappers", "TensorCall");
    static PyObject* const dtensor = imported("torch.distributed.tensor", "DTensor");
    if (arguments.positional.empty())
        tracer.break_graph(BreakKind::UnsupportedTensor, std::string(name) + " is called without a tensor");
    Ref<> function = checked(PyObject_GetAttrString(dtensor, name));
    Ref<> positional = checked(PyList_New(0)), keywords = checked(PyDict_New());
    for (std::size_t i = 1; i < arguments.positional.size(); ++i)
        checked(PyList_Append(positional.get(), constant_of(tracer, arguments.positional[i]).get()));
    for (const Keyword& keyword : arguments.keywords)
        checked(PyDict_SetItem(keywords.get(), keyword.name, constant_of(tracer, keyword.value).get()));
    PyObject* const target = tracer.keep(
        checked(PyObject_CallFunctionObjArgs(made, function.get(), positional.get(), keywords.get(), nullptr)));
    return with_its_object(tracer.recorder().emit_function(target, Arguments::of(arguments.positional[0])), arguments);
}

Outcome from_local(Tracer& tracer, const Arguments& arguments) {
    Value* mesh = arguments.positional.size() > 1 ? arguments.positional[1] : arguments.keyword("device_mesh");
    if (mesh == nullptr || mesh->object() == Py_None)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "DTensor.from_local is called without a device mesh, which it reads from a context");
    return call_as_node(tracer, "from_local", arguments);
}

Outcome to_local(Tracer& tracer, const Arguments& arguments) {
    return call_as_node(tracer, "to_local", arguments);
}

Outcome redistribute(Tracer& tracer, const Arguments& arguments) {
    return call_as_node(tracer, "redistribute", arguments);
}

Outcome full_tensor(Tracer& tracer, const Arguments& arguments) {
    return call_as_node(tracer, "full_tensor", arguments);
}

/// An object that needs no guard, or a tuple of those.
Value* pinned(Tracer& tracer, PyObject* object) {
    if (!PyTuple_CheckExact(object)) return tracer.outside(tracer.provenance().pinned(object), object);
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
        items.push_back(pinned(tracer, PyTuple_GET_ITEM(object, i)));
    return make_tuple(tracer, std::move(items));
}

/// What a DTensor has in all calls: the guard on a tensor from outside compares it, and it follows for a result.
Outcome lasting_attribute(Tracer& tracer, const char* name, const Arguments& arguments) {
    auto* tensor = arguments.positional.size() == 1 ? cast<TensorObjectValue>(arguments.positional[0]) : nullptr;
    if (tensor == nullptr || !tensor->is_wrapper() || tensor->is_unfinished())
        tracer.break_graph(BreakKind::UnsupportedTensor, std::string("attribute '") + name + "' of a DTensor is read");
    PyObject* const fake = torch_room::prototype_of(*tensor->tensor(tracer)->meta).fake.get();
    return pinned(tracer, tracer.keep(checked(PyObject_GetAttrString(fake, name))));
}

Outcome placements(Tracer& tracer, const Arguments& arguments) {
    return lasting_attribute(tracer, "placements", arguments);
}

Outcome device_mesh(Tracer& tracer, const Arguments& arguments) {
    return lasting_attribute(tracer, "device_mesh", arguments);
}

constexpr char kPlacements[] = "torch.distributed.tensor.placement_types";
constexpr char kShard[] = "Shard", kReplicate[] = "Replicate", kPartial[] = "Partial", kStrided[] = "_StridedShard";
constexpr char kIsShard[] = "is_shard", kIsReplicate[] = "is_replicate", kIsPartial[] = "is_partial";
constexpr char kDimension[] = "dim", kReduction[] = "reduce_op";

/// A placement never changes, so one that the program makes of constants is a constant.
template <const char* kName>
Outcome make_placement(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const type = imported(kPlacements, kName);
    if (Value* made = fold(tracer, type, arguments)) return made;
    tracer.break_graph(BreakKind::UnsupportedTensor,
                       std::string("a placement ") + kName + " is made of something that is no constant");
}

/// `placement.is_shard(...)`, or a property, whose getter is called.
template <const char* kName, bool kIsProperty>
Outcome ask_placement(Tracer& tracer, const Arguments& arguments) {
    ConstantArguments constants;
    Value* placement = arguments.positional.empty() ? nullptr : arguments.positional[0];
    Ref<> object = placement == nullptr ? Ref<>() : placement->as_constant(tracer);
    Arguments others = arguments;
    if (placement != nullptr) others.positional.erase(others.positional.begin());
    if (!object || !constants.take(tracer, others))
        tracer.break_graph(BreakKind::UnsupportedTensor, std::string(kName) + " of a placement that is no constant");
    Ref<> held = checked(PyObject_GetAttrString(object.get(), kName));
    if (kIsProperty) return tracer.fresh(std::move(held));
    Ref<> answer = constants.call(held.get());
    if (!answer) tracer.raise_from_python();
    return tracer.fresh(std::move(answer));
}

template <const char* kName>
void register_placement(Handlers& handlers) {
    handlers.add_once_imported(kPlacements, kName, make_placement<kName>);
}

/// The C functions of each class.
void register_questions(Handlers& handlers, std::initializer_list<const char*> names, Handler handler) {
    for (const char* name : names) handlers.add_once_imported(kPlacements, name, handler);
}

void register_placements(Handlers& handlers) {
    register_placement<kShard>(handlers);
    register_placement<kReplicate>(handlers);
    register_placement<kPartial>(handlers);
    register_placement<kStrided>(handlers);
    register_questions(handlers, {"Placement.is_shard", "Shard.is_shard", "_StridedShard.is_shard"},
                       ask_placement<kIsShard, false>);
    register_questions(handlers, {"Placement.is_replicate", "Replicate.is_replicate"},
                       ask_placement<kIsReplicate, false>);
    register_questions(handlers, {"Placement.is_partial", "Partial.is_partial"}, ask_placement<kIsPartial, false>);
    register_questions(handlers, {"Shard.dim.fget.__func__", "_StridedShard.dim.fget.__func__"},
                       ask_placement<kDimension, true>);
    register_questions(handlers, {"Partial.reduce_op.fget.__func__"}, ask_placement<kReduction, true>);
}

}  // namespace

void register_distributed_tensors(Handlers& handlers) {
    register_placements(handlers);
    register_collectives(handlers);
    auto add = [&](const char* name, Handler handler) {
        handlers.add_once_imported("torch.distributed.tensor._api", name, handler);
    };
    add("DTensor.from_local", from_local);
    add("DTensor.to_local", to_local);
    add("DTensor.redistribute", redistribute);
    add("DTensor.full_tensor", full_tensor);
    add("DTensor.placements.fget", placements);
    add("DTensor.device_mesh.fget", device_mesh);
}

}  // namespace stator

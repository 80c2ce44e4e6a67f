#include "value/tensor/jagged_tensors.h"

#include <algorithm>
#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/fake.h"
#include "torch/jagged.h"
#include "torch/names.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/dynamic_sizes.h"
#include "value/tensor/subclasses.h"
#include "value/tensor/tensor.h"

namespace stator {

using torch_room::TensorMeta;

// --- nested ints ----------------------------------------------------------------------------------------------------

namespace {

/// What PyTorch says of a nested int and a number; nothing where it raises.
std::optional<bool> compared(Comparison op, std::int64_t number) {
    switch (op) {
        case Comparison::Equal:
            return false;
        case Comparison::NotEqual:
            return true;
        case Comparison::GreaterEqual:
            return number <= 2 ? std::optional(true) : std::nullopt;
        case Comparison::Less:
            return number <= 2 ? std::optional(false) : std::nullopt;
        case Comparison::Greater:
            return number < 2 ? std::optional(true) : std::nullopt;
        case Comparison::LessEqual:
            return number < 2 ? std::optional(false) : std::nullopt;
    }
    return std::nullopt;
}

/// The same of two nested ints.
std::optional<bool> compared(Comparison op, bool is_same) {
    if (op == Comparison::Equal) return is_same;
    if (op == Comparison::NotEqual) return !is_same;
    if (!is_same) return std::nullopt;
    return op == Comparison::LessEqual || op == Comparison::GreaterEqual;
}

[[noreturn]] void refuse_number(Tracer& tracer) {
    tracer.break_graph(BreakKind::UnsupportedTensor, "the program computes with the ragged size of a nested tensor");
}

void add_nested_ints(Tracer& tracer, Value* value, std::vector<NestedIntValue*>& found) {
    if (NestedIntValue* size = as_nested_int(value)) found.push_back(size);
    if (SequenceValue* sequence = as_sequence(value); sequence != nullptr && sequence->realized)
        for (Value* item : sequence->all(tracer)) add_nested_ints(tracer, item, found);
}

}  // namespace

NestedIntValue* as_nested_int(Value* value) {
    return value->kind == Kind::Context ? dynamic_cast<NestedIntValue*>(value) : nullptr;
}

std::vector<NestedIntValue*> nested_ints(Tracer& tracer, const Arguments& arguments) {
    std::vector<NestedIntValue*> found;
    for (Value* value : arguments.positional) add_nested_ints(tracer, value, found);
    for (const Keyword& keyword : arguments.keywords) add_nested_ints(tracer, keyword.value, found);
    return found;
}

PyTypeObject* NestedIntValue::type() const {
    static PyTypeObject* const symbol = imported_class("torch", "SymInt");
    return symbol;
}

Value* NestedIntValue::binary(Tracer& tracer, BinaryOperator, Value*, bool) {
    refuse_number(tracer);
}

Outcome NestedIntValue::compare(Tracer& tracer, Comparison op, Value* other) {
    std::optional<bool> answer;
    if (const NestedIntValue* size = as_nested_int(other)) {
        answer = compared(op, this->size.identity() == size->size.identity());
    } else if (auto* number = cast<ConstantValue>(other); number != nullptr && PyLong_CheckExact(number->held)) {
        const bool is_equality = op == Comparison::Equal || op == Comparison::NotEqual;
        if (is_equality && number->is_symbolic())
            symbolic::realize_class(tracer, number);
        else
            tracer.realize(number);
        const auto value = Number::of(number->held);
        if (value) answer = compared(op, value->integer());
    }
    if (!answer) refuse_number(tracer);
    return tracer.boolean(*answer);
}

bool NestedIntValue::truth(Tracer& tracer) {
    refuse_number(tracer);
}

Py_hash_t NestedIntValue::hash(Tracer& tracer) {
    refuse_number(tracer);
}

graph::Argument NestedIntValue::as_argument(Tracer& tracer) {
    if (node == nullptr) refuse_number(tracer);
    return graph::Argument::of(node);
}

int NestedIntValue::rebuild(PlanBuilder& plan) {
    static PyObject* const method =
        checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(torch_room::tensor_class()), "size")).release();
    return rebuild_by_call(plan, this, method, {static_cast<Value*>(of), dimension});
}

std::string NestedIntValue::print() const {
    return stator::print(size);
}

// --- sizes ----------------------------------------------------------------------------------------------------------

Value* size_of(Tracer& tracer, TensorValue* tensor, std::size_t dimension) {
    const Dim size = tensor->meta->sizes.at(dimension);
    if (!nested_int::is(size) || !torch_room::is_jagged(*tensor->meta)) return size_value(tracer, size);
    return tracer.make<NestedIntValue>(tensor, tracer.integer(static_cast<std::int64_t>(dimension)), size);
}

Value* sizes_of(Tracer& tracer, TensorValue* tensor, PyTypeObject* type) {
    std::vector<Value*> items;
    for (std::size_t i = 0; i < tensor->meta->dimensions(); ++i) items.push_back(size_of(tracer, tensor, i));
    return make_tuple(tracer, std::move(items), type);
}

Dim count_of_jagged(Tracer& tracer, const TensorMeta& meta) {
    const torch_room::Prototype& prototype = torch_room::prototype_of(meta);
    Ref<> lengths = checked(PyObject_GetAttrString(prototype.fake.get(), "_lengths"));
    if (lengths.get() != Py_None)
        tracer.break_graph(BreakKind::DataDependent, "the number of elements of a nested tensor with holes is read");
    TensorMeta values = torch_room::read_fake_meta(checked(PyObject_GetAttrString(prototype.fake.get(), "_values")));
    for (const auto& [name, part] : prototype.parts)
        if (utf8(name.get()) == "_values") values = part;
    Dim count = 1;
    for (Dim size : values.sizes) count *= size;
    return count;
}

Dims sizes_of_jagged(Tracer& tracer, TensorObjectValue* wrapper, const TensorMeta& meta,
                     const std::vector<std::pair<Ref<>, TensorMeta>>& parts) {
    if (!torch_room::has_known_ragged_size(wrapper->outside))
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "the ragged size of a nested tensor is not that of its own offsets");
    const Value* source = tracer.known(torch_room::ragged_source(wrapper->outside));
    if (source == nullptr || source->source == nullptr)
        tracer.break_graph(BreakKind::UnsupportedTensor, "the offsets of a nested tensor can't be guarded");
    tracer.guard_distinct(source);
    Dims sizes = meta.sizes;
    for (const auto& [name, part] : parts) {
        if (utf8(name.get()) == "_offsets") sizes[0] = part.sizes[0] - 1;
        if (utf8(name.get()) != "_values") continue;
        for (std::size_t i = 1; i < sizes.size(); ++i)
            if (!nested_int::is(sizes[i])) sizes[i] = part.sizes[i - 1];
    }
    return sizes;
}

// --- inner tensors --------------------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t kMade = std::int64_t{1} << 48;

/// The ragged size of tensors that the program makes of this one.
Dim made_ragged_size(const TensorValue* source) {
    return nested_int::of(kMade + static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(source) >> 3));
}

Dim ragged_size_of(Tracer& tracer, TensorValue* source) {
    // Compilers know a tensor that was written to as another one.
    if (source->node->result.same_as_argument >= 0)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "a nested tensor is made of offsets that an operation has written to");
    tracer.guard_distinct(source);
    const Dim known = source->outside == nullptr ? Dim(0) : torch_room::registered_ragged_size(source->outside);
    return nested_int::is(known) ? known : made_ragged_size(source);
}

/// The tensor whose identity the ragged size stands for; null if the trace has not met it.
Value* source_of(Tracer& tracer, Dim ragged_size) {
    const std::int64_t id = nested_int::id(ragged_size);
    if (id >= kMade) return reinterpret_cast<TensorValue*>(static_cast<std::uintptr_t>(id - kMade) << 3);
    static PyObject* const find = imported("stator.jagged", "source_of");
    Ref<> number = checked(PyLong_FromLongLong(ragged_size.hint()));
    Ref<> source = checked(PyObject_CallOneArg(find, number.get()));
    return source.get() == Py_None ? nullptr : tracer.known(source);
}

Value* offsets_of_result(Tracer& tracer, const TensorObjectValue* wrapper, Borrowed<> name) {
    const TensorMeta& meta = *wrapper->payload->meta;
    Ref<> lengths = checked(PyObject_GetAttrString(torch_room::prototype_of(meta).fake.get(), "_lengths"));
    const bool is_source = (lengths.get() == Py_None) == (utf8(name) == "_offsets");
    if (utf8(name) == "_lengths" && lengths.get() == Py_None) return tracer.none();
    Value* source = nullptr;
    for (Dim size : meta.sizes)
        if (is_source && nested_int::is(size)) source = source_of(tracer, size);
    if (source == nullptr)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "'" + std::string(utf8(name)) + "' of a nested tensor that an operation made is read");
    return source;
}

/// What the program may ask of the lengths of a result: the least and the largest one, if they were given to the
/// operation. PyTorch keeps tensors of such a size.
Value* known_lengths_of_result(Tracer& tracer, TensorObjectValue* wrapper, Borrowed<> name) {
    static PyObject* const get_attribute = imported("builtins", "getattr");
    for (auto& [key, part] : wrapper->parts)
        if (key == name.get()) return part;
    PyObject* const fake = torch_room::prototype_of(*wrapper->payload->meta).fake.get();
    Ref<> known = checked(PyObject_GetAttr(fake, name));
    auto* lengths = tracer.make<DictValue>();
    PyObject *key = nullptr, *held = nullptr;
    for (Py_ssize_t i = 0; PyDict_Next(known.get(), &i, &key, &held);) {
        if (utf8(key) != "min_seqlen" && utf8(key) != "max_seqlen") return nullptr;
        Ref<> part = checked(PyUnicode_FromFormat("_%U_tensor", key));
        PyObject* const part_name = tracer.keep(std::move(part));
        Value* tensor = tracer.recorder().emit_function(
            get_attribute, Arguments::of(static_cast<Value*>(wrapper->payload), tracer.constant(part_name)));
        lengths->insert(tracer, tracer.constant(key), tensor);
    }
    wrapper->parts.emplace_back(tracer.keep(Ref<>::share(name.get())), lengths);
    tracer.on_undo([wrapper] { wrapper->parts.pop_back(); });
    return lengths;
}

}  // namespace

Value* kept_part(Tracer& tracer, TensorObjectValue* wrapper, Borrowed<> name) {
    const std::string_view text = utf8(name);
    const char* key = text == "_min_seqlen_tensor"   ? "min_seqlen"
                      : text == "_max_seqlen_tensor" ? "max_seqlen"
                                                     : nullptr;
    if (key == nullptr) return nullptr;
    Outcome kept = operations::get_attribute(tracer, wrapper, interned("_metadata_cache"));
    if (kept.is_pending()) return nullptr;
    Outcome part = operations::get_item(tracer, kept.value(), tracer.constant(interned(key)));
    return part.is_pending() ? nullptr : part.value();
}

Value* own_attribute_of_jagged(Tracer& tracer, TensorObjectValue* wrapper, Borrowed<> name) {
    const std::string_view text = utf8(name);
    if (text == "_strides") tracer.break_graph(BreakKind::UnsupportedTensor, "the strides of a nested tensor are read");
    if (text == "_size") return sizes_of(tracer, wrapper->tensor(tracer), &PyTuple_Type);
    const bool is_result = wrapper->source == nullptr && !wrapper->is_unfinished();
    if (is_result && (text == "_offsets" || text == "_lengths")) return offsets_of_result(tracer, wrapper, name);
    if (is_result && text == "_metadata_cache") return known_lengths_of_result(tracer, wrapper, name);
    return nullptr;
}

std::vector<std::pair<const graph::Node*, Dim>> ragged_sources(Tracer& tracer, Borrowed<> target,
                                                               const Arguments& arguments) {
    static PyObject* const of_jagged = find_imported("torch", "_nested_view_from_jagged").release();
    static PyObject* const of_padded = find_imported("torch", "_nested_from_padded_tensor").release();
    if (target.get() != of_jagged && target.get() != of_padded) return {};
    auto argument = [&](std::size_t place, const char* name) {
        const std::vector<Value*>& given = arguments.positional;
        return cast<TensorValue>(place < given.size() ? given[place] : arguments.keyword(name));
    };
    TensorValue* source = target.get() == of_jagged ? argument(3, "lengths") : nullptr;
    if (source == nullptr) source = argument(1, "offsets");
    if (source == nullptr) return {};
    return {{source->node, ragged_size_of(tracer, source)}};
}

namespace {

/// Views of jagged tensors take one more such tensor, which they don't read: PyTorch makes one for the process.
Outcome tensor_for_views(Tracer& tracer, const Arguments&) {
    static PyObject* const make = imported("torch.nested._internal.nested_tensor", "_nt_view_dummy");
    PyObject* const made = tracer.keep(checked(PyObject_CallNoArgs(make)));
    return tracer.outside(tracer.provenance().pinned(made), made);
}

/// Asked where a jagged tensor is made. The function logs once in a process how it should be asked, so it is called.
Outcome is_fx_tracing(Tracer& tracer, const Arguments&) {
    static PyObject* const function = imported("torch.fx._symbolic_trace", "is_fx_tracing");
    static PyObject* const module = PyImport_ImportModule("torch.fx._symbolic_trace");
    checked(PyObject_CallNoArgs(function));
    Value* asked = tracer.outside(tracer.provenance().pinned(module), module);
    return operations::get_attribute(tracer, asked, interned("_is_fx_tracing_flag"));
}

}  // namespace

void register_jagged_tensors(Handlers& handlers) {
    handlers.add_once_imported("torch.nested._internal.nested_tensor", "_nt_view_dummy", tensor_for_views);
    handlers.add("torch.fx._symbolic_trace", "is_fx_tracing", is_fx_tracing);
}

}  // namespace stator

#include "value/builtins/array_results.h"

#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"
#include "torch/dtypes.h"
#include "torch/names.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"

namespace stator::arrays {

Value* Result::of(PyObject* description, Value* made) {
    auto part = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(description, i); };
    switch (static_cast<Form>(PyLong_AsLong(part(0)))) {
        case Form::Array:
        case Form::Scalar:
        case Form::Tensor:
            return of_array(description, made);
        case Form::Tuple:
            return make_tuple(tracer_, of_parts(part(1), made));
        case Form::List:
            return make_list(tracer_, of_parts(part(1), made));
        case Form::Constant:
            return tracer_.fresh(Ref<>::share(part(1)));
        case Form::None:
            return tracer_.none();
    }
    return tracer_.none();
}

Result::Described Result::read(PyObject* description) {
    auto part = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(description, i); };
    return {static_cast<Form>(PyLong_AsLong(part(0))),
            part(1),
            part(2),
            PyLong_AsLong(part(3)),
            PyLong_AsLong(part(4)),
            part(5) == Py_True,
            part(6)};
}

std::vector<Value*> Result::of_parts(PyObject* descriptions, Value* made) {
    SequenceValue* parts = as_sequence(made);
    const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(descriptions));
    if (parts == nullptr || parts->items.size() != count) refuse(tracer_, "FakeTensor and numpy disagree");
    std::vector<Value*> values;
    for (std::size_t i = 0; i < count; ++i)
        values.push_back(of(PyTuple_GET_ITEM(descriptions, static_cast<Py_ssize_t>(i)), parts->items[i]));
    return values;
}

Value* Result::of_array(PyObject* description, Value* made) {
    const Described described = read(description);
    auto* tensor = cast<TensorValue>(made);
    if (tensor == nullptr || !is_like(*tensor->meta, described))
        refuse(tracer_, "FakeTensor and numpy disagree about the result");
    if (described.same >= 0) return arguments_.operands.at(static_cast<std::size_t>(described.same)).value;
    tensor = with_own_memory(tensor, described);
    if (described.order != Py_None) tensor = in_order(tensor, described.order);
    if (described.form == Form::Tensor) return tensor;
    return make_array(tracer_, tensor, described.form == Form::Scalar,
                      described.form == Form::Scalar || described.is_writeable);
}

bool Result::is_like(const torch_room::TensorMeta& meta, const Described& described) {
    if (torch_room::dtype_object(meta.dtype).get() != described.dtype || meta.requires_grad ||
        static_cast<Py_ssize_t>(meta.sizes.size()) != PyTuple_GET_SIZE(described.sizes))
        return false;
    for (std::size_t i = 0; i < meta.sizes.size(); ++i)
        if (meta.sizes[i].is_unbacked() ||
            meta.sizes[i].hint() != PyLong_AsLongLong(PyTuple_GET_ITEM(described.sizes, static_cast<Py_ssize_t>(i))))
            return false;
    return true;
}

bool Result::is_operand(const TensorValue* tensor) const {
    return std::ranges::find(arguments_.operands, tensor, &ArrayArguments::Operand::tensor) !=
           arguments_.operands.end();
}

TensorValue* Result::with_own_memory(TensorValue* tensor, const Described& described) {
    constexpr std::uint64_t kViews = torch_room::trait::kConjugate | torch_room::trait::kNegative;
    const bool is_shared = is_operand(tensor) || tensor->view_of != nullptr;
    const bool is_view = described.alias >= 0;
    const char* copies = nullptr;
    if (is_view) {
        const TensorValue* of = arguments_.operands.at(static_cast<std::size_t>(described.alias)).tensor;
        if (base_of(tensor) != base_of(of)) refuse(tracer_, "FakeTensor and numpy disagree about a view");
        if (is_operand(tensor)) copies = "detach";
    } else if ((tensor->meta->dispatch_keys & kViews) != 0) {
        copies = (tensor->meta->dispatch_keys & torch_room::trait::kConjugate) != 0 ? "resolve_conj" : "resolve_neg";
    } else if (is_shared) {
        copies = "clone";
    }
    if (copies == nullptr) return tensor;
    return cast<TensorValue>(tracer_.recorder().emit_method(interned(copies), Arguments::of(tensor)));
}

TensorValue* Result::in_order(TensorValue* tensor, PyObject* order) {
    std::vector<Value*> forward, back(static_cast<std::size_t>(PyTuple_GET_SIZE(order)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
        PyObject* dimension = PyTuple_GET_ITEM(order, i);
        forward.push_back(tracer_.constant(dimension));
        back[PyLong_AsSize_t(dimension)] = tracer_.integer(i);
    }
    auto call = [&](TensorValue* self, const char* method, std::vector<Value*> numbers) {
        Arguments arguments = Arguments::of(self);
        if (!numbers.empty()) arguments.positional.push_back(make_tuple(tracer_, std::move(numbers)));
        return cast<TensorValue>(tracer_.recorder().emit_method(interned(method), arguments));
    };
    return call(call(call(tensor, "permute", forward), "contiguous", {}), "permute", back);
}

}  // namespace stator::arrays

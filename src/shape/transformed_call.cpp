#include "shape/transformed_call.h"

#include <algorithm>

#include "base/text.h"
#include "shape/fallback.h"
#include "shape/may_fail.h"
#include "shape/unrecorded_writes.h"
#include "torch/fake.h"
#include "torch/names.h"
#include "torch/tensor.h"

namespace stator::shape {

namespace {

using graph::Result;
using torch_room::TensorMeta;

const void* memory_of(PyObject* tensor) {
    return torch_room::storage_identity(torch_room::innermost_tensor(tensor).get());
}

/// Reads the result of a call, and which arguments it is a view of: it has their memory under all wrappers.
class Reader {
  public:
    Reader(Arena& arena, const std::vector<Ref<>>& arguments) : arena_(arena), arguments_(arguments) {
        for (const Ref<>& argument : arguments) memories_.push_back(memory_of(argument.get()));
    }

    Result read_returned(PyObject* object, Answer& answer) {
        Result result = read(object);
        note_views(answer, result, base_, std::move(bases_));
        return result;
    }

    /// The arguments with memory that was written to.
    std::vector<int> arguments_with(const std::vector<const void*>& written) const {
        std::vector<int> found;
        for (std::size_t i = 0; i < memories_.size(); ++i)
            if (std::ranges::find(written, memories_[i]) != written.end()) found.push_back(static_cast<int>(i));
        return found;
    }

  private:
    Result read(PyObject* object) {
        Result result;
        base_ = -1;
        if (object == Py_None) return result;
        if (torch_room::is_tensor(object)) {
            read_tensor(object, result);
        } else if (PyTuple_Check(object) || PyList_CheckExact(object)) {
            read_items(object, result);
        } else {
            result.kind = Result::Kind::Constant;
            result.constant = arena_.keep(Ref<>::share(object));
        }
        return result;
    }

    void read_items(PyObject* object, Result& result) {
        result.kind = PyTuple_Check(object) ? Result::Kind::Tuple : Result::Kind::List;
        if (PyTuple_Check(object) && !PyTuple_CheckExact(object)) result.type = Py_TYPE(object);
        if (torch_room::is_size(object)) throw GaveUp{Status::Unsupported, "a result of type torch.Size"};
        std::vector<int> bases;
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
            result.items.push_back(read(PySequence_Fast_GET_ITEM(object, i)));
            bases.push_back(base_);
        }
        bases_ = std::move(bases);
    }

    void read_tensor(PyObject* object, Result& result) {
        TensorMeta meta = torch_room::read_wrapped_meta(object);
        if (meta.layout != torch_room::Layout{}) throw GaveUp{Status::Unsupported, "a result that is not strided"};
        result.kind = Result::Kind::Tensor;
        result.tensor = arena_.make<TensorMeta>(std::move(meta));
        for (std::size_t i = 0; i < arguments_.size(); ++i)
            if (arguments_[i].get() == object) {
                result.same_as_argument = static_cast<int>(i);
                return;
            }
        auto base = std::ranges::find(memories_, memory_of(object));
        if (base != memories_.end()) base_ = static_cast<int>(base - memories_.begin());
    }

    Arena& arena_;
    const std::vector<Ref<>>& arguments_;
    std::vector<const void*> memories_;
    int base_ = -1;           // of the tensor read last
    std::vector<int> bases_;  // of the parts of the container read last
};

Ref<> run(torch_room::TransformLevels& levels, FakeCall& call, const Question& question,
          torch_room::OperationEffects* effects) {
    // (Levels that the trace has not entered belong to a caller of the compiled function.)
    if (levels.depth() == 0 && torch_room::transform_depth() > 0) return call.run(question, effects);
    torch_room::TransformLevels::Resumed inside(levels);
    return call.run(question, effects);
}

}  // namespace

TransformedCall infer_in_transform(Arena& arena, torch_room::TransformLevels& levels, const Question& question,
                                   const FakeOf& fake_of) {
    FakeCall call(torch_room::fake_mode_of_thread(), question, fake_of);
    std::vector<TensorMeta> before;
    for (const Ref<>& fake : call.fakes()) before.push_back(torch_room::read_wrapped_meta(fake.get()));
    const Reader memories(arena, call.fakes());
    torch_room::OperationEffects effects;
    TransformedCall made;
    made.returned = run(levels, call, question, &effects);
    Answer& answer = made.answer;
    answer.random = effects.random;
    answer.side_effect = effects.side_effect;
    answer.written = memories.arguments_with(effects.written);
    note_unrecorded_writes(question, answer);
    answer.result = Reader(arena, call.fakes()).read_returned(made.returned.get(), answer);
    if (answer.result.kind == Result::Kind::Constant && !asks_for_metadata(question))
        throw GaveUp{Status::Unsupported, "a result of type " + type_name(Py_TYPE(made.returned.get()))};
    for (std::size_t i = 0; i < before.size(); ++i) {
        TensorMeta now = torch_room::read_wrapped_meta(call.fakes()[i].get());
        if (now != before[i])
            answer.changed_metadata.push_back({static_cast<int>(i), arena.make<TensorMeta>(std::move(now))});
    }
    answer.may_fail = may_fail(question);
    return made;
}

Ref<> call_in_transform(torch_room::TransformLevels& levels, const Question& question, const FakeOf& fake_of) {
    FakeCall call(torch_room::fake_mode_of_thread(), question, fake_of);
    torch_room::OperationEffects effects;
    return run(levels, call, question, &effects);
}

}  // namespace stator::shape

#include "shape/transformed_call.h"

#include <algorithm>

#include "base/text.h"
#include "shape/fallback.h"
#include "shape/may_fail.h"
#include "shape/result_reader.h"
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

/// A result is a view of an argument if it has its memory, under all wrappers.
class Reader : public ResultReader {
  public:
    Reader(Arena& arena, const std::vector<Ref<>>& arguments) : arena_(arena), arguments_(arguments) {
        for (const Ref<>& argument : arguments) memories_.push_back(memory_of(argument.get()));
    }

    /// The arguments with memory that was written to.
    std::vector<int> arguments_with(const std::vector<const void*>& written) const {
        std::vector<int> found;
        for (std::size_t i = 0; i < memories_.size(); ++i)
            if (std::ranges::find(written, memories_[i]) != written.end()) found.push_back(static_cast<int>(i));
        return found;
    }

  private:
    Result read_constant(PyObject* object) override {
        if (torch_room::is_size(object)) throw GaveUp{Status::Unsupported, "a result of type torch.Size"};
        Result result;
        result.kind = Result::Kind::Constant;
        result.constant = arena_.keep(Ref<>::share(object));
        return result;
    }

    Result read_tensor(PyObject* object, int& base) override {
        TensorMeta meta = torch_room::read_wrapped_meta(object);
        if (meta.layout != torch_room::Layout{}) throw GaveUp{Status::Unsupported, "a result that is not strided"};
        Result result;
        result.kind = Result::Kind::Tensor;
        result.tensor = arena_.make<TensorMeta>(std::move(meta));
        auto same = std::ranges::find(arguments_, object, [](const Ref<>& argument) { return argument.get(); });
        if (same != arguments_.end()) {
            result.same_as_argument = static_cast<int>(same - arguments_.begin());
            return result;
        }
        auto memory = std::ranges::find(memories_, memory_of(object));
        if (memory != memories_.end()) base = static_cast<int>(memory - memories_.begin());
        return result;
    }

    Arena& arena_;
    const std::vector<Ref<>>& arguments_;
    std::vector<const void*> memories_;
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

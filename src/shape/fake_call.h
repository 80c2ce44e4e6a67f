/// A call of an operation with FakeTensors in place of tensors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shape/infer.h"
#include "shape/tensors.h"
#include "torch/fake.h"
#include "torch/operation_effects.h"

namespace stator::shape {

/// A reason to give up other than a rejection by PyTorch.
struct GaveUp {
    Status status;
    std::string reason;
};

/// The FakeTensor of a tensor argument, where it is not made from the metadata of its node.
using FakeOf = std::function<Ref<>(const graph::Node&)>;

/// The arguments of the call as Python objects, with a FakeTensor for each tensor.
class FakeCall {
  public:
    /// Without `number_of`, sizes and numbers that change between calls are what they are in this one. Throws
    /// PythonError and `GaveUp`.
    FakeCall(Borrowed<> mode, const Question& question, torch_room::NumberOf number_of = {});
    FakeCall(Borrowed<> mode, const Question& question, const FakeOf& fake_of);

    /// Runs the operation in its mode: draws no random numbers, warns and logs nothing. Throws PythonError.
    Ref<> run(const Question& question, torch_room::OperationEffects* effects);
    /// Runs the real operation on such arguments: see `stator.trial.attempt`.
    Ref<> attempt(const Question& question);

    const std::vector<Ref<>>& fakes() const { return fakes_; }
    const torch_room::TensorMeta& meta(std::size_t index) const { return metas_[index]; }
    bool has_wrapped_number() const;
    /// Whether an argument is of a wrapper subclass.
    bool has_wrapper() const;
    /// Whether one is a jagged tensor, whose operations call its `__torch_function__`.
    bool has_jagged() const;

  private:
    void take_arguments(const Question& question);
    bool stands_beside_tensor_like(const torch_room::TensorMeta& number) const;
    Ref<> make(const torch_room::TensorMeta& meta) const;
    Ref<> object(const graph::Argument& argument);
    Ref<> sequence(const graph::Argument& argument);
    template <class Put>
    void fill(const graph::Argument& argument, Put put);
    Ref<> constant(PyObject* object);
    Ref<> value(const graph::Result& result);
    Ref<> call(const Question& question);

    Borrowed<> mode_;
    torch_room::NumberOf number_of_;
    TensorArguments tensors_;
    std::vector<torch_room::TensorMeta> metas_;
    std::vector<Ref<>> fakes_;
    std::vector<Ref<>> arguments_;
    std::vector<PyObject*> names_;
    std::size_t positional_ = 0;
};

/// Whether the operation changes the state of random generators by drawing numbers alone. A function in Python may set
/// it, which no operator shows.
bool cannot_seed(const Question& question);

}  // namespace stator::shape

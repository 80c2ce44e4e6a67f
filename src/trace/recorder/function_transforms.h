/// Function transforms (`torch.vmap`, `torch.func.grad`, ...) as state of the trace. PyTorch's Python code of a
/// transform is inlined; where it enters a level of functorch or wraps a tensor, the graph has a node that does the
/// same, and the trace does it at once, on FakeTensors.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "shape/infer.h"
#include "shape/transformed_call.h"
#include "torch/function_transforms.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

class FunctionTransforms {
  public:
    explicit FunctionTransforms(Tracer& tracer) : tracer_(tracer) {}
    ~FunctionTransforms();
    FunctionTransforms(const FunctionTransforms&) = delete;
    FunctionTransforms& operator=(const FunctionTransforms&) = delete;

    // --- calls. A real frame can't be left between two levels, so the outermost call of a transform is one instruction

    bool is_called() const { return called_ != nullptr || entered_from_.has_value(); }
    void begin_call(PyCodeObject* code);
    void end_call();
    /// Functions whose results may hold tensors that are still wrapped, such as the second result of `vjp`.
    const std::vector<PyCodeObject*>& calls() const { return calls_; }

    // --- levels that the program enters by hand, and leaves in another instruction. A trace that ends between the two
    // is of no use

    bool is_entered_by_hand() const { return entered_from_.has_value(); }
    void begin_by_hand();
    /// Called after each change of levels.
    void end_by_hand_if_left();

    // --- operations

    bool has_levels() const { return levels_.depth() > 0 || is_entered_by_hand(); }
    /// Whether an operation on these tensors is transformed, or one of them is still wrapped.
    bool concern(std::span<TensorValue* const> tensors) const;
    /// Throws PythonError if PyTorch rejects the operation.
    const shape::Answer& infer(Arena& arena, const graph::Node& node, std::span<TensorValue* const> tensors);
    /// `value` is the result of the operation that was inferred last. Returns the tensor that the program gets: leaving
    /// a level gives the tensor itself that was wrapped, if nothing but in-place operations came in between.
    Value* note_result(Value* value);
    /// Runs a function that changes or asks for the state of functorch. Throws PythonError.
    Ref<> call(const graph::Node& node, std::span<TensorValue* const> tensors);

  private:
    Ref<> fake_of(const graph::Node& node, std::span<TensorValue* const> tensors);
    void note_fake(Value* value, PyObject* object);
    /// Breaks the graph where no transform can be captured.
    void expect_possible();
    /// Inside of a transform there are no function modes. The one in which tensors as indices are not numbers is a
    /// state of the trace instead.
    void begin_modes();
    void leave();
    /// Forgets the FakeTensors of tensors that are not wrapped: operations outside of transforms may change these.
    void forget_plain();

    Tracer& tracer_;
    torch_room::TransformLevels levels_;
    PyCodeObject* called_ = nullptr;
    std::optional<torch_room::ForwardMode> entered_from_;  // the state before the program entered a level by hand
    std::vector<Value*> modes_around_;
    bool indexes_by_tensors_around_ = false;
    std::vector<PyCodeObject*> calls_;
    std::unordered_map<const graph::Node*, Ref<>> fakes_;
    std::unordered_map<PyObject*, TensorValue*> plain_;  // the tensors from before a transform, by their fakes
    Ref<> returned_;                                     // by the operation that was inferred last
};

bool is_wrapped(const TensorValue* tensor);

}  // namespace stator

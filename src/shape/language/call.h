/// One question as a rule sees it: arguments bound to named parameters, the current state, and functions to answer.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "base/ref.h"
#include "shape/infer.h"
#include "shape/language/operand.h"
#include "shape/store.h"
#include "torch/global_state.h"

namespace stator::shape {

/// Parameters of an operation, written `self dim? keepdim? * dtype?`: `?` may be left out, `...` takes several
/// positional arguments as one sequence, after `*` only keywords.
class Signature {
  public:
    static constexpr std::size_t kMost = 25;

    explicit Signature(std::string_view text);

    /// False if the arguments don't fit.
    bool bind(const Question& question, std::array<Operand, kMost>& slots) const;

  private:
    struct Parameter {
        PyObject* name;  // interned, never freed
        bool optional = false;
        bool variadic = false;
        bool keyword_only = false;
    };
    int find(PyObject* name, bool is_builtin) const;
    std::vector<Parameter> parameters_;
};

class Call {
  public:
    Call(Store& store, const Question& question, const torch_room::ResultState& state, int variant, Answer& answer,
         std::vector<Ref<>>& kept)
        : state_(state), variant_(variant), store_(store), question_(question), answer_(answer), kept_(kept) {}

    const Operand& operator[](std::size_t slot) const { return slots_[slot]; }
    std::array<Operand, Signature::kMost>& slots() { return slots_; }
    const torch_room::ResultState& state() const { return state_; }
    /// Which of the operations that share a rule it is.
    int variant() const { return variant_; }

    /// Whether autograd records an operation on these tensors.
    bool records(std::initializer_list<const TensorMeta*> inputs) const;
    bool records(const std::vector<const TensorMeta*>& inputs) const;

    /// A new tensor with its own memory, contiguous unless strides are given; without grad.
    TensorMeta fresh(Dims sizes, Dtype dtype, Device device) const;
    TensorMeta fresh(Dims sizes, Dims strides, Dtype dtype, Device device) const;
    /// A view of a tensor with other sizes and strides, over its memory.
    TensorMeta view_of(const TensorMeta& base, Dims sizes, Dims strides, Dim storage_offset) const;

    // Answers. Each returns true, so that a rule can end with it.

    /// One tensor; it gets a `grad_fn` if `recorded` and its dtype can have one.
    bool returns(TensorMeta meta, bool recorded = false);
    /// A new leaf tensor that requires grad, as `torch.zeros(3, requires_grad=True)`.
    bool returns_leaf(TensorMeta meta);
    bool returns_view(const Operand& base, TensorMeta meta);
    bool returns_views(const Operand& base, std::vector<TensorMeta> views, bool as_list);
    /// Each is a view of its own base, or that base itself if there is no metadata.
    bool returns_views(const std::vector<Operand>& bases, std::vector<std::optional<TensorMeta>> views, bool as_list);
    bool returns_several(std::vector<TensorMeta> metas, std::vector<bool> recorded, PyTypeObject* type = nullptr,
                         bool as_list = false);
    /// The argument itself, unchanged.
    bool returns_same(const Operand& argument);
    bool returns_constant(Ref<> constant);
    /// The argument itself after a write to it; false if PyTorch would reject the write. `recorded`: whether autograd
    /// records the other inputs.
    bool returns_written(const Operand& self, bool recorded);
    /// As `returns_written`, for operations that return nothing.
    bool writes(const Operand& self, bool recorded);

    /// Turns the answer for a new tensor into that of the in-place form: false if the result would not fit into the
    /// first argument.
    bool turns_into_write();
    /// The same for a view: the first argument itself gets new sizes and strides.
    bool turns_into_reshaping();
    /// The result is known only after running the operation.
    bool depends_on_contents();

    // Sizes that depend on the data of tensors.

    /// Whether there may be such sizes. Otherwise the rule says `depends_on_contents`.
    bool captures_data_sizes() const;
    /// A new size, at most `most`.
    Dim data_size(Dim most, std::int64_t least = 0);
    /// PyTorch raises for some numbers that depend on data: the node has to run, even if nobody uses its result.
    void note_doubt() const { question_.data_sizes->numbers.note_doubt(); }
    /// How many elements of the tensor are not zero.
    Dim count_of(const Operand& tensor);

    Answer& answer() { return answer_; }

  private:
    graph::Result tensor_result(TensorMeta meta);
    int index_of(const Operand& operand) const;
    bool note_write(const Operand& self, bool recorded, const TensorMeta*& after);

    std::array<Operand, Signature::kMost> slots_;
    torch_room::ResultState state_;
    int variant_;
    Store& store_;
    const Question& question_;
    Answer& answer_;
    std::vector<Ref<>>& kept_;
};

}  // namespace stator::shape

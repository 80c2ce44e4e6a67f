/// A question as a sequence of words, which are equal exactly if the answers have to be. Metadata is represented by the
/// address of its interned copy; constants by type and value, so that `1`, `True` and `1.0` differ; immutable objects
/// by their address.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ref.h"
#include "shape/infer.h"
#include "shape/store.h"
#include "torch/global_state.h"

namespace stator::shape {

class Key {
  public:
    /// Metadata is interned in `store`.
    Key(Store& store, const Question& question, const torch_room::ResultState& state);

    /// False if an argument can't be compared: the answer is for this question only.
    bool is_cacheable() const { return cacheable_; }
    std::span<const std::uint64_t> words() const { return words_; }
    std::uint64_t hash() const { return hash_; }
    /// References to the objects whose addresses are in the words.
    std::vector<Ref<>> objects() const;

  private:
    void add(std::uint64_t word);
    void add_object(PyObject* object);
    void add_string(PyObject* string);
    void add_target(const Question& question);
    void add_argument(const graph::Argument& argument);
    void add_result(const graph::Result& result);
    void add_constant(PyObject* constant);

    Store& store_;
    std::vector<std::uint64_t> words_;
    std::vector<PyObject*> objects_;
    std::vector<Ref<>> owned_;  // strings that were not interned before
    std::vector<const graph::Node*> tensors_;
    std::uint64_t hash_ = 0x9e3779b97f4a7c15;
    bool cacheable_ = true;
};

}  // namespace stator::shape

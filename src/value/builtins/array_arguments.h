/// The arguments of a call of numpy: what the node of the graph takes, and what numpy is tried with.
#pragma once

#include <string>
#include <vector>

#include "value/kinds/array.h"
#include "value/kinds/sequence.h"
#include "value/kinds/slice.h"
#include "value/tracer.h"

namespace stator::arrays {

/// As in `python/stator/arrays.py`.
enum class Form : std::uint8_t { Array, Scalar, Tensor, Constant, Tuple, List, None };

const TensorValue* base_of(const TensorValue* tensor);
[[noreturn]] void refuse(Tracer& tracer, const std::string& reason);

/// The arguments of a call, as the node takes them and as numpy's trial takes them.
class ArrayArguments {
  public:
    ArrayArguments(Tracer& tracer, const Arguments& arguments);

    struct Operand {
        TensorValue* tensor;
        Value* value;  // the array or tensor of the program
        Ref<> for_trial;
    };

    Arguments for_node;
    std::vector<Operand> operands;

    /// What numpy returns. Breaks the graph if the node would do something else.
    Ref<> describe(PyObject* call);

    /// Copies the operands that share memory with one that the call writes to: numpy reads them first. Arrays from
    /// outside may share memory in another call.
    void copy_overlapping(PyObject* written);

    /// Converts the integers among the operands first.
    void convert_integers(PyObject* dtype);

  private:
    struct Taken {
        Value* for_node;
        Ref<> for_trial;
    };

    static bool is_of_narrow_integers(const Operand& operand);
    Taken take(Value* value);
    Taken operand(TensorValue* tensor, Value* value, Form form, bool is_writeable);
    Taken take_tensor(TensorValue* tensor);
    Taken take_sequence(SequenceValue* sequence);
    Taken take_slice(SliceValue* slice);

    /// A numpy scalar that is a constant: in the graph it is a tensor without dimensions.
    Taken take_scalar(Value* constant);

    /// A dtype, given as `numpy.float32`, `float` or a `numpy.dtype`: the graph has its name.
    Taken take_dtype(Value* value);
    static bool may_share_memory(const TensorValue* one, const TensorValue* other);

    /// Puts the result of a method in the place of an operand.
    void replace(Operand& operand, const char* method, Value* argument);
    Value* replaced(Value* value, Value* before, Value* after);

    Tracer& tracer_;
    Ref<> positional_, named_;
    std::vector<Value*> changing_;  // ints that differ between calls
};

}  // namespace stator::arrays

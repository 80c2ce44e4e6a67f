/// What the program gets from a call of numpy that is a node of the graph.
#pragma once

#include <vector>

#include "value/builtins/array_arguments.h"

namespace stator::arrays {

/// Makes the value that the program gets from what the node returns.
class Result {
  public:
    Result(Tracer& tracer, const ArrayArguments& arguments) : tracer_(tracer), arguments_(arguments) {}

    Value* of(PyObject* description, Value* made);

  private:
    /// As `_compare_arrays` in `python/stator/arrays.py` returns it.
    struct Described {
        Form form;
        PyObject *dtype, *sizes;
        long same, alias;
        bool is_writeable;
        PyObject* order;
    };

    static Described read(PyObject* description);
    std::vector<Value*> of_parts(PyObject* descriptions, Value* made);
    Value* of_array(PyObject* description, Value* made);
    static bool is_like(const torch_room::TensorMeta& meta, const Described& described);

    bool is_operand(const TensorValue* tensor) const;

    /// numpy's scalars and copies have their own memory, its views are objects of their own.
    TensorValue* with_own_memory(TensorValue* tensor, const Described& described);

    /// A copy with its dimensions in another order in memory.
    TensorValue* in_order(TensorValue* tensor, PyObject* order);

    Tracer& tracer_;
    const ArrayArguments& arguments_;
};

}  // namespace stator::arrays

/// Reads what a call returned, and which arguments of the call the tensors in it are views of.
#pragma once

#include <vector>

#include "shape/infer.h"

namespace stator::shape {

class ResultReader {
  public:
    virtual ~ResultReader() = default;

    /// Notes the views in the answer. Throws `GaveUp`.
    graph::Result read_returned(PyObject* object, Answer& answer);

  protected:
    /// Sets `base` to the argument that the tensor is a view of, if there is one.
    virtual graph::Result read_tensor(PyObject* object, int& base) = 0;
    /// What is neither a tensor, None, nor a tuple or list of results.
    virtual graph::Result read_constant(PyObject* object) = 0;

  private:
    graph::Result read(PyObject* object, int& base);
    graph::Result read_items(PyObject* object);

    std::vector<int> bases_;  // of the items of the container read last
};

}  // namespace stator::shape

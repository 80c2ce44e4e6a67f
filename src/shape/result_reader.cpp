#include "shape/result_reader.h"

#include <algorithm>
#include <utility>

#include "torch/names.h"
#include "torch/tensor.h"

namespace stator::shape {

using graph::Result;

namespace {

void note_views(Answer& answer, const Result& result, int base, std::vector<int> bases) {
    if (result.items.empty())
        answer.view_of = base;
    else if (std::ranges::any_of(bases, [&](int other) { return other != bases.front(); }))
        answer.views_of = std::move(bases);
    else
        answer.view_of = bases.front();
}

}  // namespace

Result ResultReader::read_returned(PyObject* object, Answer& answer) {
    int base = -1;
    Result result = read(object, base);
    note_views(answer, result, base, std::move(bases_));
    return result;
}

Result ResultReader::read(PyObject* object, int& base) {
    if (object == Py_None) return {};
    if (torch_room::is_tensor(object)) return read_tensor(object, base);
    if (PyList_CheckExact(object) || (PyTuple_Check(object) && !torch_room::is_size(object))) return read_items(object);
    return read_constant(object);
}

Result ResultReader::read_items(PyObject* object) {
    Result result;
    result.kind = PyTuple_Check(object) ? Result::Kind::Tuple : Result::Kind::List;
    if (PyTuple_Check(object) && !PyTuple_CheckExact(object)) result.type = Py_TYPE(object);
    std::vector<int> bases;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
        int base = -1;
        result.items.push_back(read(PySequence_Fast_GET_ITEM(object, i), base));
        bases.push_back(base);
    }
    bases_ = std::move(bases);
    return result;
}

}  // namespace stator::shape

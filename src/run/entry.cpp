#include "run/entry.h"

#include <array>
#include <memory>

#include "base/python_error.h"
#include "cpython/code_object.h"

namespace stator {

namespace {

/// Objects held for the length of a call; few need no allocation.
class Held {
  public:
    explicit Held(std::span<PyObject* const> objects) : count_(objects.size()) {
        if (count_ > inline_.size()) {
            allocated_ = std::make_unique_for_overwrite<PyObject*[]>(count_);
            data_ = allocated_.get();
        }
        for (std::size_t i = 0; i < count_; ++i) data_[i] = Py_NewRef(objects[i]);
    }
    ~Held() {
        for (std::size_t i = 0; i < count_; ++i) Py_DECREF(data_[i]);
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    PyObject* const* data() const { return data_; }
    std::span<PyObject* const> from(std::size_t first) const { return {data_ + first, count_ - first}; }

  private:
    std::array<PyObject*, 32> inline_;
    std::unique_ptr<PyObject*[]> allocated_;
    PyObject** data_ = inline_.data();
    std::size_t count_;
};

/// The graph's results. A backend may answer with a tuple or a list.
std::span<PyObject* const> results_of(PyObject* answer) {
    if (PyTuple_Check(answer)) return {&PyTuple_GET_ITEM(answer, 0), static_cast<std::size_t>(PyTuple_GET_SIZE(answer))};
    if (PyList_Check(answer)) return {&PyList_GET_ITEM(answer, 0), static_cast<std::size_t>(PyList_GET_SIZE(answer))};
    PyErr_Format(PyExc_TypeError, "the compiled graph returned a %.200s, not a tuple of its results",
                 Py_TYPE(answer)->tp_name);
    throw PythonError();
}

}  // namespace

void Entry::visit(const std::function<void(PyObject*)>& visitor) const {
    guards.visit(visitor);
    if (compiled) visitor(compiled.get());
    for (const Ref<>& kept : plan.kept) visitor(kept.get());
}

PyObject* run_entry(Entry& entry, PyThreadState* thread, cpython::Frame* frame) {
    // Running the graph may run anything, another check of these guards included: what they fetched is held here.
    Held fetched(entry.guards.fetched());
    Ref<> value;
    try {
        Ref<> answer;
        std::span<PyObject* const> results;
        if (entry.compiled) {
            answer = checked(PyObject_Vectorcall(entry.compiled.get(), fetched.data(), entry.input_count, nullptr));
            results = results_of(answer.get());
        }
        value = run(entry.plan, results, fetched.from(entry.input_count));
        return cpython::return_at_once(thread, frame, std::move(value));
    } catch (const PythonError&) {
        // Nothing has happened yet that the program could have seen: uncompiled, it raises by itself, where it should.
        if (!entry.has_effects && PyErr_ExceptionMatches(PyExc_Exception)) {
            PyErr_Clear();
            return cpython::run_untouched(thread, frame);
        }
        return cpython::run_raising(thread, frame, cpython::body_start(cpython::code_of(frame)));
    }
}

}  // namespace stator

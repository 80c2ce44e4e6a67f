#include "capture/failed_traces.h"

#include <span>

#include "base/python_error.h"
#include "base/text.h"
#include "bytecode/stack_depth.h"
#include "capture/settings.h"
#include "cpython/code_object.h"
#include "cpython/objects.h"

namespace stator {

namespace {

/// A slot of a frame may be empty: as a tuple with the object, or an empty one.
Ref<> tuple_of(PyObject* held) {
    return checked(held == nullptr ? PyTuple_New(0) : PyTuple_Pack(1, held));
}

std::size_t depth_at(cpython::Frame* frame, bytecode::Index at) {
    return at.value == 0 ? 0 : cpython::stack(frame).size();
}

Ref<> slots_of(cpython::Frame* frame, std::size_t depth) {
    std::size_t count = static_cast<std::size_t>(cpython::slot_count(cpython::code_of(frame))) + depth;
    Ref<> slots = checked(PyList_New(0));
    for (std::size_t i = 0; i < count; ++i)
        checked(PyList_Append(slots.get(), tuple_of(cpython::slots(frame)[i]).get()));
    return slots;
}

/// Whether a frame of this code can look like this: a recording may have been altered.
bool fits(PyCodeObject* object, std::span<PyObject* const> held, bytecode::Index at, std::size_t stack_depth) {
    const bytecode::Code& code = bytecode::decode(object);
    const auto slots = static_cast<std::size_t>(code.slot_count());
    if (held.size() != slots + stack_depth) return false;
    auto depth = bytecode::stack_depth_before(code, at);
    if (!depth || static_cast<std::size_t>(*depth) != stack_depth) return false;
    // From the first instruction of the body on, variables of inner functions are in cells.
    for (std::size_t i = 0; i < slots; ++i) {
        auto kind = code.slot_kind(static_cast<int>(i));
        const bool has_cell = at >= code.body() && (kind.is_cell || kind.is_free);
        if (has_cell && (held[i] == nullptr || !PyCell_Check(held[i]))) return false;
    }
    return true;
}

}  // namespace

std::string record_failed_trace(cpython::Frame* frame, bytecode::Index at, const BreakReport& report) {
    std::string folder = text_setting("record_errors");
    if (folder.empty()) return "";
    ErrorAside aside;
    try {
        std::size_t depth = depth_at(frame, at);
        Ref<> module = checked(PyImport_ImportModule("stator.recordings"));
        Ref<> path = checked(
            PyObject_CallMethod(module.get(), "record", "sOOinOs", folder.c_str(), cpython::function_of(frame),
                                slots_of(frame, depth).get(), at.value, static_cast<Py_ssize_t>(depth),
                                cpython::is_generator_frame(frame) ? Py_True : Py_False, report.reason.c_str()));
        return std::string(utf8(path.get()));
    } catch (const PythonError&) {
        PyErr_WriteUnraisable(nullptr);
        return "";
    }
}

std::vector<PyObject*> held_in_slots(Borrowed<> slots) {
    std::vector<PyObject*> held;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(slots.get()); ++i) {
        PyObject* slot = PyList_GET_ITEM(slots.get(), i);
        held.push_back(PyTuple_GET_SIZE(slot) == 0 ? nullptr : PyTuple_GET_ITEM(slot, 0));
    }
    return held;
}

Ref<> trace_again(PyFunctionObject* function, Borrowed<> slots, bytecode::Index at, std::size_t stack_depth,
                  bool is_generator) {
    PyCodeObject* code = cpython::code_of(function);
    const std::vector<PyObject*> held = held_in_slots(slots);
    if (!fits(code, held, at, stack_depth)) {
        PyErr_SetString(PyExc_ValueError,
                        "the recording does not fit the function: it is of another version, or was altered");
        throw PythonError();
    }
    auto traced = trace({.function = function,
                         .code = code,
                         .slots = held.data(),
                         .at = at,
                         .stack_depth = stack_depth,
                         .is_generator = is_generator},
                        {});
    const auto* finished = std::get_if<Trace>(&traced);
    return finished != nullptr && finished->end == TraceEnd::Failed ? as_dict(finished->report) : Ref<>::share(Py_None);
}

}  // namespace stator

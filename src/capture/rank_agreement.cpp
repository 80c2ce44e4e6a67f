#include "capture/rank_agreement.h"

#include <algorithm>

#include "base/python_error.h"
#include "base/text.h"

namespace stator {

namespace {

/// The numbers that the graph is specialized on, including those that can't become inputs: for these, a difference is
/// an error.
Ref<> numbers_of(std::span<const Guard> guards) {
    Ref<> numbers = checked(PyDict_New());
    for (const Guard& guard : guards)
        if (guard.kind == GuardKind::Constant &&
            (PyLong_CheckExact(guard.expected) || PyFloat_CheckExact(guard.expected)))
            checked(PyDict_SetItemString(numbers.get(), path(*guard.source).c_str(), guard.expected));
    return numbers;
}

/// The sizes of tensors that the graph is specialized on.
Ref<> sizes_of(std::span<const Guard> guards) {
    Ref<> sizes = checked(PyDict_New());
    for (const Guard& guard : guards) {
        if (guard.kind != GuardKind::Tensor) continue;
        const std::size_t dimensions = torch_room::make_check(guard.expected).dimensions;
        for (std::size_t i = 0; i < std::min(dimensions, torch_room::DynamicSizes::kMostDimensions); ++i) {
            if (guard.dynamic != nullptr && guard.dynamic->is_dynamic(i)) continue;
            const std::string place = path(*guard.source) + torch_room::print_layout_number(i);
            Ref<> size = checked(PyLong_FromLongLong(torch_room::layout_number(guard.expected, i)));
            checked(PyDict_SetItemString(sizes.get(), place.c_str(), size.get()));
        }
    }
    return sizes;
}

/// What an attempt before this one should have made an input of the graph.
Ref<> made_variables_of(const Knowledge& knowledge) {
    Ref<> places = checked(PyList_New(0));
    for (const std::string& place : knowledge.changing_in_place)
        checked(PyList_Append(places.get(), checked(PyUnicode_FromString(place.c_str())).get()));
    return places;
}

}  // namespace

std::optional<Again> agree_between_ranks(const GraphModule& module, const Trace& trace, const Knowledge& knowledge,
                                         const CaptureReport& report) {
    Ref<> examples = checked(PyList_New(0));
    for (const Ref<>& input : module.inputs) checked(PyList_Append(examples.get(), input.get()));
    std::string ends = "returns";
    if (trace.end == TraceEnd::Broke && !trace.report.stack.empty()) {
        const UserLine& at = trace.report.stack.front();
        ends = "ends at " + callee_of(at.code.get(), at.line).print() + ": " + trace.report.reason;
    }
    Ref<> collectives = checked(PyImport_ImportModule("stator.collectives"));
    Ref<> places =
        checked(PyObject_CallMethod(collectives.get(), "run_compiler_collective", "OOOOOss", module.module.get(),
                                    examples.get(), numbers_of(trace.guards).get(), sizes_of(trace.guards).get(),
                                    made_variables_of(knowledge).get(), report.start.print().c_str(), ends.c_str()));
    if (PyList_GET_SIZE(places.get()) == 0) return std::nullopt;
    Again again{"numbers differ between ranks", {}};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(places.get()); ++i) {
        std::string place(utf8(PyList_GET_ITEM(places.get(), i)));
        // Both, because an int of a module that only differs between instances stays a constant.
        again.learned.changing_in_place.insert(place);
        again.learned.changing_numbers.insert(std::move(place));
    }
    return again;
}

}  // namespace stator

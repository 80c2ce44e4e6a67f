#include "run/collective.h"

#include "base/python_error.h"
#include "base/text.h"
#include "run/settings.h"

namespace stator {

namespace {

/// The numbers that the graph was made for. `fixed` ones are among them: that they differ is an error then.
Ref<> numbers_of(std::span<const Guard> guards) {
    Ref<> numbers = checked(PyDict_New());
    for (const Guard& guard : guards)
        if (guard.kind == GuardKind::Constant &&
            (PyLong_CheckExact(guard.expected) || PyFloat_CheckExact(guard.expected)))
            checked(PyDict_SetItemString(numbers.get(), path(*guard.source).c_str(), guard.expected));
    return numbers;
}

}  // namespace

std::vector<std::string> run_compiler_collective(Borrowed<> module, std::span<PyObject* const> inputs,
                                                 std::span<const Guard> guards, const CaptureReport& report,
                                                 const BreakReport* end) {
    if (setting("enable_compiler_collectives", 0) == 0) return {};
    Ref<> examples = checked(PyList_New(0));
    for (PyObject* input : inputs) checked(PyList_Append(examples.get(), input));
    std::string ends = "returns";
    if (end != nullptr && !end->stack.empty())
        ends =
            "ends at " + callee_of(end->stack.front().code.get(), end->stack.front().line).print() + ": " + end->reason;
    Ref<> collectives = checked(PyImport_ImportModule("stator.collectives"));
    Ref<> places =
        checked(PyObject_CallMethod(collectives.get(), "run_compiler_collective", "OOOss", module.get(), examples.get(),
                                    numbers_of(guards).get(), report.start.print().c_str(), ends.c_str()));
    std::vector<std::string> changing;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(places.get()); ++i)
        changing.emplace_back(utf8(PyList_GET_ITEM(places.get(), i)));
    return changing;
}

}  // namespace stator

#include "capture/entry.h"

namespace stator {

void Entry::visit(const std::function<void(PyObject*)>& visitor) const {
    guards.visit(visitor);
    if (graph.compiled) visitor(graph.compiled.get());
    if (graph.as_captured) visitor(graph.as_captured.get());
    if (compile_id) visitor(compile_id.get());
    if (forced_backend) visitor(forced_backend.get());
    for (const Ref<>& kept : plan.kept) visitor(kept.get());
}

std::string Entry::explain(cpython::Frame* frame) {
    if (cpython::code_of(frame) != code.get()) return "the function's code was replaced";
    std::string reason =
        guards.explain(cpython::slots(frame), reinterpret_cast<PyObject*>(cpython::function_of(frame)));
    if (reason.empty() && !frees_dropped_without_code(plan, guards.fetched().subspan(graph.input_count)))
        reason =
            "freeing an object that the captured region drops now runs code: a __del__, or a callback of a weak "
            "reference";
    guards.release();
    return reason.empty() ? torch_room::explain_mismatch(state) : reason;
}

}  // namespace stator

#include "value/tracer.h"

#include <algorithm>

#include "base/python_error.h"
#include "value/effect_log.h"
#include "value/kinds/exception.h"

namespace stator {

namespace {

/// A source in the expression. There is always one: an expression without sources is folded.
Source* some_source(const Expression& expression) {
    if (expression.op == Expression::Op::Source) return expression.source;
    Source* found = expression.left == nullptr ? nullptr : some_source(*expression.left);
    return found != nullptr || expression.right == nullptr ? found : some_source(*expression.right);
}

}  // namespace

bool Tracer::is_dynamic(const Source& size) const {
    if (knowledge_->backend_constants.contains(path(size))) return false;
    if (dynamic_shapes_ == DynamicShapes::Always) return true;
    return dynamic_shapes_ == DynamicShapes::Automatic && knowledge_->changing_numbers.contains(path(size));
}

void Tracer::require_dynamic(const Expression* size, Range range) {
    required_dynamic_.push_back(size);
    using Op = Expression::Op;
    if (range.least != Range::kNoLeast) numbers_.decide(Op::GreaterEqual, size, numbers_.constant(range.least));
    if (range.most != Range::kNoMost) numbers_.decide(Op::LessEqual, size, numbers_.constant(range.most));
}

void Tracer::guard_relation(const Expression& condition) {
    guard({.kind = GuardKind::Expression, .source = some_source(condition), .expression = &condition});
}

void Tracer::ask(const Expression& question) {
    break_graph(BreakKind::DataDependent, print(question) + " depends on the data of a tensor");
}

void Tracer::realize_now(Value* value) {
    value->realized = true;
    on_undo([value] { value->realized = false; });
    value->realize(*this);
}

void Tracer::guard(Guard guard) {
    // A pinned object is always the same one, but its contents may change.
    if (guard.source->access == Access::Pinned &&
        (guard.kind == GuardKind::Identity || guard.kind == GuardKind::Constant || guard.kind == GuardKind::Present))
        return;
    if (guard.expected != nullptr) keep(Ref<>::share(guard.expected));
    guards_.push_back(guard);
}

void Tracer::raise(PyObject* exception_class, const std::string& message) {
    throw Raised{make_exception(*this, reinterpret_cast<PyTypeObject*>(exception_class), {string(message)})};
}

void Tracer::raise_from_python() {
    TakenError error = TakenError::take();
    STATOR_CHECK(bool(error), "a C API call failed without setting an error");
    throw Raised{make_exception(*this, error.exception().get())};
}

void Tracer::break_graph(BreakKind kind, std::string reason) {
    throw Break{kind, std::move(reason)};
}

bool EffectLog::has_mutated(const Value* value) const {
    return std::ranges::any_of(effects_, [value](const Effect& effect) { return effect.from[0] == value; });
}

}  // namespace stator

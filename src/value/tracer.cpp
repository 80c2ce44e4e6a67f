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

bool Tracer::has_changed(const Source& number) const {
    if (!dynamic_.is_automatic || knowledge_->changing_numbers.empty()) return false;
    const std::string place = path(number);
    return knowledge_->changing_numbers.contains(place) && !knowledge_->backend_constants.contains(place);
}

std::optional<SymbolOrigin> Tracer::origin_of_number(const Source& number) const {
    const Knowledge& known = *knowledge_;
    if (known.changing_numbers.empty() && !number.varies && number.access != Access::Entry &&
        !dynamic_.may_be_dynamic_at_first())
        return std::nullopt;
    const std::string place = path(number);
    if (known.backend_constants.contains(place)) return std::nullopt;
    const bool is_int = PyLong_CheckExact(number.object);
    // (A number by which something is found, such as that of a hook, is none that the program computes with.)
    if (number.access == Access::Entry && is_int && dynamic_.is_automatic) return SymbolOrigin::Assigned;
    PyObject* const module = is_int ? module_above(number) : nullptr;
    if (is_int) {
        if (dynamic_.names(number)) return SymbolOrigin::Named;
        auto value = Number::of(number.object);
        if (value && dynamic_.has_value(value->integer())) return SymbolOrigin::Listed;
        if (dynamic_.specializes_ints) return std::nullopt;
        if (module != nullptr && !dynamic_.has_dynamic_ints_of_modules &&
            (is_static_module(module) || !known.changing_in_place.contains(place)))
            return std::nullopt;
    } else if (dynamic_.specializes_floats) {
        return std::nullopt;
    }
    if (dynamic_.is_automatic && known.changing_numbers.contains(place)) return SymbolOrigin::Changed;
    if (dynamic_.is_automatic && number.varies) return SymbolOrigin::Assigned;
    const bool is_by_default = !dynamic_.is_static_by_default;
    if (is_by_default && (is_of_arguments(number) || (module != nullptr && dynamic_.has_dynamic_ints_of_modules)))
        return SymbolOrigin::Default;
    return std::nullopt;
}

void Tracer::require_dynamic(const Expression* size, Range range) {
    size_marks_[size].required = range;
    // What is out of range is an error when the trace has ended.
    const std::int64_t hint = size->hint.integer();
    if (hint < range.least || hint > range.most) return;
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

#include "guard/build.h"

#include <utility>

#include "base/check.h"
#include "cpython/objects.h"

namespace stator {

namespace {

/// How many guards of one source are compared to find duplicates: enough for those that tracing produces.
constexpr int kComparedForRepetition = 8;
/// The same for expressions; a loop produces the same ones with others in between.
constexpr std::size_t kComparedExpressions = 32;

}  // namespace

std::int32_t layout_number_of(const Source& source) {
    switch (source.access) {
        case Access::Size:
            return source.number;
        case Access::Stride:
            return static_cast<std::int32_t>(torch_room::kFirstStride) + source.number;
        case Access::Offset:
            return static_cast<std::int32_t>(torch_room::kStorageOffset);
        default:
            return -1;
    }
}

GuardBuilder::~GuardBuilder() {
    for (Draft& draft : drafts_) draft.source->register_number = kNone;
}

void GuardBuilder::build(std::span<const Guard> guards, std::span<Source* const> fetched,
                         std::span<Source* const> all_distinct, std::span<const Expression* const> symbols) {
    reserve(guards.size() + fetched.size());
    for (const Guard& guard : guards) add(guard);
    for (Source* source : fetched) state_.fetched_from.push_back(used(source));
    std::vector<std::int32_t> distinct;
    for (Source* source : all_distinct) distinct.push_back(used(source));
    for (const Expression* symbol : symbols) add_symbol(*symbol);
    state_.fetched.resize(fetched.size());
    state_.registers.resize(drafts_.size());

    emit_all();
    if (distinct.size() > 1) {
        state_.distinct = std::make_unique<DistinctObjects>(std::move(distinct));
        emit({.op = StepOp::AllDistinct});
    }
    emit({.op = StepOp::Done});
}

void GuardBuilder::reserve(std::size_t count) {
    drafts_.reserve(2 * count);
    next_fact_.reserve(count);
    expected_.reserve(count);
    state_.facts.reserve(count);
    state_.places.reserve(2 * count);
    state_.steps.reserve(3 * count);
    state_.fact_of_step.reserve(3 * count);
    state_.kept.reserve(3 * count);
}

PyObject* GuardBuilder::keep(PyObject* object) {
    state_.kept.push_back(Ref<>::share(object));
    return object;
}

std::int32_t GuardBuilder::draft_of(Source* source) {
    if (source->register_number >= 0) return source->register_number;
    path_.clear();
    for (Source* step = source; step != nullptr && step->register_number < 0; step = step->parent)
        path_.push_back(step);
    for (auto step = path_.rbegin(); step != path_.rend(); ++step) add_draft(*step);
    return source->register_number;
}

void GuardBuilder::add_draft(Source* source) {
    auto index = static_cast<std::int32_t>(drafts_.size());
    std::int32_t parent = source->parent == nullptr ? kNone : source->parent->register_number;
    source->register_number = index;
    drafts_.push_back({source});
    state_.places.push_back({.access = source->access,
                             .number = source->number,
                             .parent = parent,
                             .key = source->key == nullptr ? nullptr : keep(source->key),
                             .object = source->access == Access::Pinned ? keep(source->object) : nullptr});
    if (parent == kNone) {
        roots_.push_back(index);
        return;
    }
    Draft& above = drafts_[parent];
    (above.last_child == kNone ? above.first_child : drafts_[above.last_child].next_sibling) = index;
    above.last_child = index;
}

std::int32_t GuardBuilder::used(Source* source) {
    std::int32_t index = draft_of(source);
    drafts_[index].used = true;
    return index;
}

void GuardBuilder::add(const Guard& guard) {
    // A relation between sizes reads them from their tensors.
    const bool is_of_layout = guard.kind == GuardKind::Expression && layout_number_of(*guard.source) >= 0;
    Source* about = is_of_layout ? guard.source->parent : guard.source;
    Fact fact{.kind = guard.kind, .place = draft_of(about), .number = guard.number, .expected = guard.expected};
    if (guard.other != nullptr) {
        fact.other = used(guard.other);
        drafts_[fact.place].used = true;
    }
    if (guard.expression != nullptr) fact.number = add_expression(*guard.expression);
    if (is_repetition(fact)) return;
    Draft& draft = drafts_[fact.place];
    switch (guard.kind) {
        case GuardKind::Absent:
            draft.absent = true;
            break;
        case GuardKind::Tensor:
            // Only the metadata is kept: an entry must not keep its inputs alive.
            fact.tensor = static_cast<std::int32_t>(state_.tensors.size());
            state_.tensors.push_back(torch_room::make_check(guard.expected, guard.dynamic));
            keep(reinterpret_cast<PyObject*>(state_.tensors.back().type));
            fact.expected = nullptr;
            break;
        case GuardKind::Autograd:
            fact.number = pack(torch_room::read_autograd_state(guard.expected));
            fact.expected = nullptr;
            break;
        case GuardKind::Offset:
            fact.number = torch_room::storage_offset(guard.expected);
            fact.expected = nullptr;
            break;
        case GuardKind::Function: {
            STATOR_CHECK(PyFunction_Check(guard.expected), "a function guard needs a function");
            auto* function = reinterpret_cast<PyFunctionObject*>(guard.expected);
            keep(cpython::globals_of(function));
            fact.expected = keep(reinterpret_cast<PyObject*>(cpython::code_of(function)));
            break;
        }
        default:
            if (fact.expected != nullptr) keep(fact.expected);
    }
    auto index = static_cast<std::int32_t>(state_.facts.size());
    (draft.last_fact == kNone ? draft.first_fact : next_fact_[draft.last_fact]) = index;
    draft.last_fact = index;
    next_fact_.push_back(kNone);
    expected_.push_back(guard.expected);
    state_.facts.push_back(fact);
}

std::vector<Term> GuardBuilder::over_registers(const Expression& expression) {
    std::vector<Term> terms = terms_of(expression);
    for (Term& term : terms) {
        if (term.op != Expression::Op::Source) continue;
        Source* source = std::exchange(term.source, nullptr);
        term.dimension = layout_number_of(*source);
        term.place = used(term.dimension >= 0 ? source->parent : source);
        term.symbol = 0;
    }
    return terms;
}

void GuardBuilder::add_symbol(const Expression& symbol) {
    const Source* read = layout_number_of(*symbol.source) >= 0 ? symbol.source->parent : symbol.source;
    // A symbol that is neither guarded nor fetched can't be part of a condition.
    state_.symbols.push_back(read->register_number < 0 ? Term{} : over_registers(symbol).front());
}

std::int64_t GuardBuilder::add_expression(const Expression& expression) {
    std::vector<Term> terms = over_registers(expression);
    auto& known = state_.expressions;
    std::size_t first = known.size() > kComparedExpressions ? known.size() - kComparedExpressions : 0;
    for (std::size_t i = first; i < known.size(); ++i)
        if (known[i].terms == terms) return static_cast<std::int64_t>(i);
    known.push_back({Condition(std::move(terms)), nullptr});
    return static_cast<std::int64_t>(known.size()) - 1;
}

bool GuardBuilder::is_repetition(const Fact& fact) const {
    int compared = 0;
    for (std::int32_t i = drafts_[fact.place].first_fact; i != kNone && compared < kComparedForRepetition; ++compared) {
        const Fact& other = state_.facts[i];
        if (other.kind == fact.kind && other.number == fact.number && other.other == fact.other &&
            expected_[i] == fact.expected)
            return true;
        i = next_fact_[i];
    }
    return false;
}

void GuardProgram::State::build(std::span<const Guard> guards, std::span<Source* const> fetched,
                                std::span<Source* const> all_distinct, std::span<const Expression* const> symbols) {
    GuardBuilder(*this).build(guards, fetched, all_distinct, symbols);
}

}  // namespace stator

#include "trace/exits/weaker_bounds.h"

#include <map>
#include <optional>
#include <utility>

namespace stator {

namespace {

using Op = Expression::Op;

/// `source >= number` or `source <= number`.
struct Bound {
    const Source* source;
    bool is_least;
    std::int64_t number;

    bool is_at_least_as_strong_as(const Bound& other) const {
        return is_least ? number >= other.number : number <= other.number;
    }
};

bool is_int(const Expression* expression) {
    return expression->op == Op::Constant && !expression->is_float;
}

/// The bound that `number comparison bound` puts on a source: the number is that source, or the source plus a constant.
std::optional<Bound> bound_of(Op comparison, const Expression* number, const Expression* bound) {
    const bool is_least = comparison == Op::Greater || comparison == Op::GreaterEqual;
    if (!is_least && comparison != Op::Less && comparison != Op::LessEqual) return std::nullopt;
    std::optional<std::int64_t> limit = bound->constant.integer();
    if ((number->op == Op::Add || number->op == Op::Subtract) && is_int(number->right)) {
        limit = apply(number->op == Op::Add ? Op::Subtract : Op::Add, *limit, number->right->constant.integer());
        number = number->left;
    }
    if (limit && comparison == Op::Greater) limit = apply(Op::Add, *limit, 1);
    if (limit && comparison == Op::Less) limit = apply(Op::Subtract, *limit, 1);
    if (!limit || number->op != Op::Source || number->is_float) return std::nullopt;
    return Bound{number->source, is_least, *limit};
}

/// The comparison with its operands exchanged.
Op turned_around(Op comparison) {
    switch (comparison) {
        case Op::Less:
            return Op::Greater;
        case Op::LessEqual:
            return Op::GreaterEqual;
        case Op::Greater:
            return Op::Less;
        case Op::GreaterEqual:
            return Op::LessEqual;
        default:
            return comparison;
    }
}

std::optional<Bound> bound_of(const Guard& guard) {
    if (guard.kind != GuardKind::Expression || guard.expression->right == nullptr) return std::nullopt;
    const Expression& condition = *guard.expression;
    if (is_int(condition.right)) return bound_of(condition.op, condition.left, condition.right);
    if (is_int(condition.left)) return bound_of(turned_around(condition.op), condition.right, condition.left);
    return std::nullopt;
}

}  // namespace

void drop_weaker_bounds(std::vector<Guard>& guards) {
    std::map<std::pair<const Source*, bool>, std::pair<const Expression*, Bound>> strongest;
    for (const Guard& guard : guards) {
        auto bound = bound_of(guard);
        if (!bound) continue;
        auto [found, is_new] = strongest.try_emplace({bound->source, bound->is_least}, guard.expression, *bound);
        if (!is_new && bound->is_at_least_as_strong_as(found->second.second))
            found->second = {guard.expression, *bound};
    }
    if (strongest.empty()) return;
    std::erase_if(guards, [&](const Guard& guard) {
        auto bound = bound_of(guard);
        return bound && strongest.at({bound->source, bound->is_least}).first != guard.expression;
    });
}

}  // namespace stator

#include "guard/ranges.h"

#include <algorithm>

namespace stator {

namespace {

using Op = Expression::Op;

/// `source op bound`, if the condition has that form.
struct Bound {
    Op op;
    std::int64_t number;
};

std::optional<Bound> bound_on(const Source* source, const Expression& condition) {
    if (condition.right == nullptr || condition.right->op != Op::Constant || condition.right->is_float)
        return std::nullopt;
    const Expression* subject = condition.left;
    std::optional<std::int64_t> number = condition.right->constant.integer();
    if (subject->op == Op::Add && subject->right->op == Op::Constant && !subject->is_float) {
        number = apply(Op::Subtract, *number, subject->right->constant.integer());
        subject = subject->left;
    }
    if (!number || subject->op != Op::Source || subject->source != source) return std::nullopt;
    return Bound{condition.op, *number};
}

void narrow(Range& range, const Bound& bound) {
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    switch (bound.op) {
        case Op::Less:
            if (bound.number != kLeast) range.most = std::min(range.most, bound.number - 1);
            break;
        case Op::LessEqual:
            range.most = std::min(range.most, bound.number);
            break;
        case Op::Greater:
            if (bound.number != kMost) range.least = std::max(range.least, bound.number + 1);
            break;
        case Op::GreaterEqual:
            range.least = std::max(range.least, bound.number);
            break;
        case Op::Equal:
            range.least = std::max(range.least, bound.number);
            range.most = std::min(range.most, bound.number);
            break;
        default:
            break;
    }
}

}  // namespace

Range range_of(const Source* source, std::span<const Guard> guards) {
    Range range;
    for (const Guard& guard : guards) {
        if (guard.kind != GuardKind::Expression) continue;
        if (auto bound = bound_on(source, *guard.expression)) narrow(range, *bound);
    }
    return range;
}

}  // namespace stator

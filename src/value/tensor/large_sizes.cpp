#include "value/tensor/large_sizes.h"

#include <algorithm>
#include <unordered_map>

#include "number/conditions.h"

namespace stator {

namespace {

using Op = Expression::Op;

/// A table of its own, in which unbacked sizes are at least 2.
class LargeSizes {
  public:
    explicit LargeSizes(Expressions& numbers) : numbers_(numbers) {}

    /// Null where there is no such expression.
    const Expression* copy(const Expression& number) {
        if (number.is_float) return nullptr;
        if (number.op == Op::Constant) return table_.constant(number.constant);
        if (number.op == Op::Source || number.op == Op::Unbacked) return copy_of_symbol(number);
        const Expression* left = copy(*number.left);
        const Expression* right = number.right == nullptr ? nullptr : copy(*number.right);
        if (left == nullptr || (right == nullptr && number.right != nullptr)) return nullptr;
        return table_.apply(number.op, left, right);
    }

    std::optional<bool> decided(Op comparison, const Expression* left, const Expression* right) {
        return table_.decided(comparison, left, right);
    }

  private:
    const Expression* copy_of_symbol(const Expression& symbol) {
        const Expression*& known = symbols_[&symbol];
        if (known != nullptr) return known;
        Range range = numbers_.range_of(&symbol);
        // A number that may be negative is not a size.
        if (symbol.is_unbacked && range.least >= 0) range.least = std::max<std::int64_t>(range.least, 2);
        return known = table_.unbacked(/*is_float=*/false, range);
    }

    Expressions& numbers_;
    Arena arena_;
    Expressions table_{arena_};
    std::unordered_map<const Expression*, const Expression*> symbols_;
};

}  // namespace

std::optional<bool> decided_for_large_sizes(Expressions& numbers, const Expression& comparison) {
    if (!is_comparison(comparison.op)) return std::nullopt;
    LargeSizes sizes(numbers);
    const Expression *left = sizes.copy(*comparison.left), *right = sizes.copy(*comparison.right);
    if (left == nullptr || right == nullptr) return std::nullopt;
    return sizes.decided(comparison.op, left, right);
}

}  // namespace stator

#include "trace/exits/specialized_sizes.h"

#include <algorithm>
#include <unordered_set>

namespace stator {

namespace {

using torch_room::DynamicSizes;

std::unordered_set<const Source*> specialized_among(std::span<const Symbol> symbols) {
    std::unordered_set<const Source*> sources;
    for (const Symbol& symbol : symbols) {
        const Source* source = symbol.variable->source;
        if (symbol.resolved->op != Expression::Op::Constant) continue;
        if (source->access == Access::Size || source->access == Access::Stride) sources.insert(source);
    }
    return sources;
}

bool is_over(const Expression& expression, const std::unordered_set<const Source*>& sources) {
    if (expression.op == Expression::Op::Source) return sources.contains(expression.source);
    return (expression.left == nullptr || is_over(*expression.left, sources)) &&
           (expression.right == nullptr || is_over(*expression.right, sources));
}

void fix(DynamicSizes& dynamic, const Source& specialized) {
    const std::uint32_t bit = std::uint32_t{1} << specialized.number;
    (specialized.access == Access::Size ? dynamic.sizes : dynamic.strides) &= ~bit;
}

/// A stride that follows from constants is a constant.
void fix_strides(DynamicSizes& dynamic) {
    std::vector<std::int8_t>& follows = dynamic.stride_follows;
    for (bool has_fixed = true; has_fixed;) {
        has_fixed = false;
        for (std::int8_t& from : follows) {
            const auto other = static_cast<std::size_t>(from);
            if (from < 0 || dynamic.is_dynamic(other) || dynamic.has_dynamic_stride(other) || follows[other] >= 0)
                continue;
            from = -1;
            has_fixed = true;
        }
    }
}

}  // namespace

void guard_specialized_sizes(std::vector<Guard>& guards, std::span<const Symbol> symbols, Arena& arena) {
    const std::unordered_set<const Source*> specialized = specialized_among(symbols);
    if (specialized.empty()) return;
    for (Guard& guard : guards) {
        if (guard.dynamic == nullptr) continue;
        DynamicSizes dynamic = *guard.dynamic;
        for (const Source* source : specialized)
            if (source->parent == guard.source) fix(dynamic, *source);
        fix_strides(dynamic);
        guard.dynamic = dynamic.any() ? arena.make<DynamicSizes>(std::move(dynamic)) : nullptr;
    }
    std::erase_if(guards, [&](const Guard& guard) {
        return guard.kind == GuardKind::Expression && is_over(*guard.expression, specialized);
    });
}

}  // namespace stator

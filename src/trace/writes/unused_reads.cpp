#include "trace/writes/unused_reads.h"

#include <algorithm>

#include "bytecode/only_loads.h"
#include "value/kinds/constant.h"

namespace stator {

namespace {

using bytecode::Op;

/// Instructions that take nothing from the stack, or only move what is there.
bool only_moves(Op op) {
    return bytecode::only_loads(op) || op == Op::PopTop || op == Op::StoreFast;
}

enum class Sum : std::uint8_t { No, Plus, Minus };

Sum sum_of(const bytecode::Instruction& instruction) {
    // The numbers of Python's operators: NB_ADD, NB_SUBTRACT, and the same in place.
    constexpr int kAdd = 0, kSubtract = 10, kInPlace = 13;
    if (instruction.op != Op::BinaryOp || instruction.arg >= 2 * kInPlace) return Sum::No;
    const int number = instruction.arg % kInPlace;
    return number == kAdd ? Sum::Plus : number == kSubtract ? Sum::Minus : Sum::No;
}

std::optional<long> small_int(const Value* value) {
    constexpr long kLimit = 1 << 30;
    PyObject* held = value->object();
    if (value->kind != Kind::Constant || held == nullptr || !PyLong_CheckExact(held)) return std::nullopt;
    int overflow = 0;
    const long number = PyLong_AsLongAndOverflow(held, &overflow);
    if (overflow != 0 || number > kLimit || number < -kLimit) return std::nullopt;
    return number;
}

/// Whether the top of the stack was pushed just now, from the constants of the code: no variable holds it.
bool is_literal_on_top(const BytecodeFrame& frame) {
    return frame.at.value > 0 && (*frame.code)[bytecode::Index{frame.at.value - 1}].op == Op::LoadConst;
}

/// Whether the source is this attribute in the `__dict__` of that object.
bool is_attribute_in(const Source* source, const Value* owner, PyObject* name) {
    return source != nullptr && source->access == Access::DictItem && source->key == name &&
           source->parent->access == Access::InstanceDict && source->parent->parent == owner->source;
}

}  // namespace

std::optional<std::string> UnusedReads::used_by(const BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    if (reads_.empty() || only_moves(instruction.op)) return std::nullopt;
    auto use_of = [&](const Value* value) -> std::optional<std::string> {
        auto found = reads_.find(value);
        return found == reads_.end() ? std::nullopt : std::optional(found->second.what);
    };
    auto is_object = [&](const Value* value) {
        auto found = reads_.find(value);
        return found != reads_.end() && found->second.owner == nullptr;
    };
    auto is_attribute = [&](const Value* value) {
        auto found = reads_.find(value);
        return found != reads_.end() && found->second.owner != nullptr;
    };
    if (instruction.op == Op::LoadAttr) return is_object(frame.top()) ? std::nullopt : use_of(frame.top());
    if (instruction.op == Op::StoreAttr) {
        if (!is_object(frame.top())) return use_of(frame.top()) ? use_of(frame.top()) : use_of(frame.top(1));
        assigned_.emplace_back(frame.top(), frame.code->name(instruction.arg));
        return is_attribute(frame.top(1)) ? std::nullopt : use_of(frame.top(1));
    }
    if (sum_of(instruction) != Sum::No && is_attribute(frame.top(1)) && !contains(frame.top())) {
        const std::optional<long> added = small_int(frame.top());
        if (!small_int(frame.top(1)) || !added || !is_literal_on_top(frame)) return use_of(frame.top(1));
        added_now_ = sum_of(instruction) == Sum::Plus ? *added : -*added;
        return std::nullopt;
    }
    // (Which of them the instruction takes does not matter: there are rarely others.)
    for (const Value* value : frame.stack)
        if (std::optional<std::string> use = use_of(value)) return use;
    return std::nullopt;
}

void UnusedReads::note_sum(const BytecodeFrame& frame, const bytecode::Instruction& instruction, const Value* left) {
    auto found = reads_.find(left);
    if (found == reads_.end() || sum_of(instruction) == Sum::No) return;
    Read read = found->second;
    read.added += added_now_;
    reads_.insert_or_assign(frame.top(), std::move(read));
}

bool UnusedReads::add_object(const Value* object, std::string what) {
    if (object->kind != Kind::Object) return false;
    reads_.try_emplace(object, Read{std::move(what)});
    return true;
}

bool UnusedReads::add_attribute(const Value* owner, PyObject* name, const Value* value, std::string what) {
    if (std::ranges::find(assigned_, std::pair(owner, name)) != assigned_.end()) return true;
    if (!is_attribute_in(value->source, owner, name)) return false;
    reads_.try_emplace(value, Read{std::move(what), owner, name});
    return true;
}

bool UnusedReads::put_back(std::span<const Effect> effects) const {
    auto assigns = [](const Effect& effect) {
        return effect.op == PlanOp::SetAttribute && effect.from.size() == 2 && effect.from[1] != nullptr;
    };
    auto is_put_back = [&](const Effect& effect) {
        auto last = std::ranges::find_if(effects.rbegin(), effects.rend(), [&](const Effect& other) {
            return other.from[0] == effect.from[0] && other.object == effect.object;
        });
        auto read = reads_.find(last->from[1]);
        return read != reads_.end() && read->second.owner == effect.from[0] && read->second.name == effect.object &&
               read->second.added == 0;
    };
    return std::ranges::all_of(effects, assigns) && std::ranges::all_of(effects, is_put_back);
}

}  // namespace stator

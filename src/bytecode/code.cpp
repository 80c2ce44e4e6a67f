#include "bytecode/code.h"

#include <cctype>
#include <string_view>

#include "base/check.h"
#include "base/text.h"

namespace stator::bytecode {

Index Code::index_at(Offset offset) const {
    STATOR_CHECK(offset.is_valid() && offset.unit() < static_cast<int>(by_unit_.size()),
                 "an offset that is outside of the code");
    return by_unit_[offset.unit()];
}

const Handler* Code::handler_for(Index index) const {
    int handler = instructions_[index.value].handler;
    return handler < 0 ? nullptr : &handlers_[handler];
}

namespace {

std::string quoted_slot(const Code& code, int slot) {
    cpython::SlotKind kind = code.slot_kind(slot);
    const char* word = kind.is_cell ? "cell " : kind.is_free ? "free " : "";
    return word + std::string(utf8(code.slot_name(slot)));
}

/// The word itself, not the end of `target`.
bool mentions_arg(std::string_view text) {
    std::size_t found = text.find("arg");
    while (found != std::string_view::npos && found > 0 && std::isalpha(static_cast<unsigned char>(text[found - 1])))
        found = text.find("arg", found + 1);
    return found != std::string_view::npos;
}

/// The operand in words; empty if the operation has none.
std::string operand_text(const Instruction& instruction, const Code& code) {
    const int arg = instruction.arg;
    switch (instruction.op) {
        case Op::LoadConst:
        case Op::ReturnConst:
            return short_repr(code.constant(arg));
        case Op::LoadFast:
        case Op::LoadFastCheck:
        case Op::LoadFastAndClear:
        case Op::StoreFast:
        case Op::DeleteFast:
        case Op::MakeCell:
        case Op::LoadDeref:
        case Op::StoreDeref:
        case Op::DeleteDeref:
        case Op::LoadClassDeref:
        case Op::LoadFromDictOrDeref:
            return quoted_slot(code, arg);
        case Op::LoadGlobal:
            return std::string(utf8(code.name(arg))) + (instruction.extra != 0 ? " with NULL" : "");
        case Op::LoadSuperAttr:
            return std::string(utf8(code.name(arg))) + ((instruction.extra & 1) != 0 ? " as method" : "");
        case Op::StoreGlobal:
        case Op::DeleteGlobal:
        case Op::LoadName:
        case Op::StoreName:
        case Op::DeleteName:
        case Op::LoadFromDictOrGlobals:
        case Op::LoadAttr:
        case Op::LoadMethod:
        case Op::StoreAttr:
        case Op::DeleteAttr:
        case Op::ImportName:
        case Op::ImportFrom:
            return std::string(utf8(code.name(arg)));
        case Op::BinaryOp:
            return binary_operator_text(arg);
        case Op::CompareOp:
            return comparison_text(arg);
        case Op::Call:
            return std::to_string(arg) +
                   (instruction.extra >= 0 ? " " + short_repr(code.constant(instruction.extra)) : "");
        case Op::UnpackEx:
        case Op::FormatValue:
            return std::to_string(arg) + ", " + std::to_string(instruction.extra);
        default:
            break;
    }
    if (instruction.target.is_valid()) return "to " + std::to_string(instruction.target.value);
    return mentions_arg(operands_of(instruction.op)) ? std::to_string(arg) : "";
}

std::string padded(std::string text, std::size_t width) {
    return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

}  // namespace

std::string print(const Instruction& instruction, const Code& code) {
    std::string operand = operand_text(instruction, code);
    std::string text = name_of(instruction.op);
    return operand.empty() ? text : text + " " + operand;
}

std::string print(const Code& code) {
    std::string text = "code " + std::string(utf8(code.object()->co_qualname)) + ", line " +
                       std::to_string(code.object()->co_firstlineno) + ", stack " + std::to_string(code.stack_size()) +
                       "\n";
    int line = -1;
    for (Index index{0}; index < code.end(); index = index.next()) {
        const Instruction& instruction = code[index];
        bool is_new_line = instruction.line != line && instruction.line >= 0;
        if (is_new_line) line = instruction.line;
        text += padded(is_new_line ? std::to_string(line) : "", 5) + padded(std::to_string(index.value), 6) + "  " +
                print(instruction, code) + "\n";
    }
    for (const Handler& handler : code.handlers())
        text += "  exceptions in " + std::to_string(handler.start.value) + ".." +
                std::to_string(handler.end.value - 1) + " go to " + std::to_string(handler.target.value) +
                " with stack " + std::to_string(handler.depth) + (handler.push_lasti ? " and lasti" : "") + "\n";
    return text;
}

}  // namespace stator::bytecode

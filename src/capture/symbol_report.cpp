#include "capture/symbol_report.h"

#include "base/python_error.h"
#include "base/text.h"
#include "capture/callee.h"
#include "capture/notes.h"
#include "capture/report.h"
#include "capture/symbols.h"
#include "number/conditions.h"

namespace stator {

namespace {

std::string print_range(Range range) {
    std::string text;
    if (range.least != Range::kNoLeast) text += ", at least " + std::to_string(range.least);
    if (range.most != Range::kNoMost) text += ", at most " + std::to_string(range.most);
    return text;
}

/// `: view(4, 3)`, the line of the source file.
std::string source_text(const Callee& at) {
    Ref<> linecache = Ref<>::steal(PyImport_ImportModule("linecache"));
    Ref<> line;
    if (linecache) line = Ref<>::steal(PyObject_CallMethod(linecache.get(), "getline", "si", at.file.c_str(), at.line));
    PyErr_Clear();
    std::string text = line && PyUnicode_Check(line.get()) ? std::string(utf8(line.get())) : "";
    const std::size_t start = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t\r\n");
    return start == std::string::npos ? "" : ": " + text.substr(start, end - start + 1);
}

/// `L['x'].size()[0] == 4 at program (model.py:12): return x.view(4, 3)`.
std::string print_relation(const Relation& relation) {
    std::string text = print(*relation.condition);
    if (!relation.where.code) return text + ", which the backend needs";
    const Callee at = callee_of(relation.where.code.get(), relation.where.line);
    return text + " at " + at.print() + source_text(at);
}

const char* mark_of(SymbolOrigin origin) {
    return origin == SymbolOrigin::Unbacked ? "torch._dynamo.decorators.mark_unbacked" : "torch._dynamo.mark_dynamic";
}

std::string unbacked_origin(const UnbackedSymbol& symbol) {
    return symbol.source == nullptr ? "" : std::string("; ") + print(SymbolOrigin::Unbacked);
}

std::string print_symbol(const Symbol& symbol, const Trace& trace) {
    std::string line = "s" + std::to_string(symbol.variable->symbol) + " is " + print(*symbol.variable) + ": ";
    const bool is_specialized = symbol.specialized_by >= 0 || symbol.resolved->op == Expression::Op::Constant;
    if (is_specialized) {
        line += "specialized to " + print(symbol.variable->hint);
        if (symbol.specialized_by >= 0)
            line += " by " + print_relation(trace.relations[static_cast<std::size_t>(symbol.specialized_by)]);
    } else if (!contains(*symbol.resolved, symbol.variable)) {
        // (A multiple of 2 is resolved to `(s0 // 2) * 2`.)
        line += "equal to " + print_by_symbols(*symbol.resolved);
    } else {
        line += print(symbol.variable->hint) + " in this call" + print_range(symbol.range);
    }
    return line + "; " + print(symbol.origin);
}

/// `u0 is L['x'].size()[0]: 5 in this call, at least 0`, `u0 is the result of item in line 3 of model.py: at least 0`.
std::string print_symbol(const UnbackedSymbol& symbol) {
    const std::string name = print_by_symbols(*symbol.number);
    std::string line = symbol.source != nullptr ? name + " is " + path(*symbol.source)
                       : symbol.origin.empty()  ? name + " is computed by the graph"
                                                : symbol.origin;
    const bool is_itself = contains(*symbol.resolved, symbol.number);
    if (!is_itself) return line + ": equal to " + print_by_symbols(*symbol.resolved) + unbacked_origin(symbol);
    if (symbol.source != nullptr) line += ": " + std::to_string(symbol.size) + " in this call";
    return line + print_range(symbol.range) + unbacked_origin(symbol);
}

/// Whether the marked range has sizes that the trace does not allow. 0 and 1 are always constants.
bool is_narrower(const Symbol& symbol) {
    const Range& marked = *symbol.marked;
    if (marked.least == Range::kNoLeast && marked.most == Range::kNoMost) return false;
    return symbol.range.least > std::max<std::int64_t>(marked.least, 2) || symbol.range.most < marked.most;
}

std::string print_relations_on(const Trace& trace, const Expression* variable) {
    std::string text;
    for (const Relation& relation : trace.relations)
        if (relation.where.code && contains(*relation.condition, variable)) text += "; " + print_relation(relation);
    return text;
}

}  // namespace

std::vector<std::string> print_symbols(const Trace& trace) {
    std::vector<std::string> lines;
    for (const Symbol& symbol : trace.symbols) lines.push_back(print_symbol(symbol, trace));
    for (const UnbackedSymbol& symbol : trace.unbacked) lines.push_back(print_symbol(symbol));
    return lines;
}

void expect_dynamic(const Trace& trace) {
    if (!trace.broken_mark.empty()) raise_constraint_violation(trace.broken_mark + ".");
    for (const Symbol& symbol : trace.symbols) {
        if (!symbol.marked) continue;
        const std::string marked = print(*symbol.variable) + " is marked with " + mark_of(symbol.origin);
        const std::int64_t hint = symbol.variable->hint.integer();
        if (hint < symbol.marked->least || hint > symbol.marked->most)
            raise_constraint_violation(marked + print_range(*symbol.marked) + ", and is " + std::to_string(hint) + ".");
        constexpr const char* kRemedy = ". Change that line, or use torch._dynamo.maybe_mark_dynamic.";
        if (symbol.resolved->op == Expression::Op::Constant)
            raise_constraint_violation(marked + ", but is specialized to " + std::to_string(hint) +
                                       print_relations_on(trace, symbol.variable) + kRemedy);
        if (is_narrower(symbol))
            raise_constraint_violation(marked + print_range(*symbol.marked) +
                                       ", but not all of these sizes take the same path" +
                                       print_relations_on(trace, symbol.variable) + kRemedy);
    }
}

void log_symbols(const Trace& trace, cpython::Frame* frame, bytecode::Index at) {
    if ((trace.symbols.empty() && trace.unbacked.empty()) || !logs_information()) return;
    const Callee callee = callee_of(frame, at);
    std::string text = callee.print() + " is captured with symbols. ";
    for (const std::string& line : print_symbols(trace)) text += line + ". ";
    issue_note(NoteKind::Information, NoteOnce::Never, "dynamic_shapes", callee, text);
}

}  // namespace stator

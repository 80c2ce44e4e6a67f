#include "trace/interpreter.h"

#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "number/conditions.h"
#include "trace/exits/specialized_sizes.h"
#include "trace/exits/weaker_bounds.h"
#include "value/kinds/constant.h"
#include "value/kinds/sequence.h"

namespace stator {

// --- reports --------------------------------------------------------------------------------------------------------

void Interpreter::note_mismatch(FunctionValue* function, const std::string& message, const Arguments& arguments) {
    MismatchedCall call{message, Ref<PyCodeObject>::share(function->code), {}, {}};
    for (Value* argument : arguments.positional) call.argument_types.push_back(type_name(argument->type()));
    for (const Keyword& keyword : arguments.keywords)
        call.argument_types.push_back(std::string(utf8(keyword.name)) + ": " + type_name(keyword.value->type()));
    if (BytecodeFrame* caller = stack_.innermost())
        call.caller = {Ref<PyCodeObject>::share(caller->function->code), caller->line()};
    mismatched_calls_.push_back(std::move(call));
}

void Interpreter::record_break(const Break& reason) {
    report_.is_exit = false;
    report_.kind = reason.kind;
    report_.reason = reason.reason;
    report_.stack.clear();
    for (auto activation = stack_.frames.rbegin(); activation != stack_.frames.rend(); ++activation) {
        if ((*activation)->is_task) continue;
        auto* frame = static_cast<BytecodeFrame*>(*activation);
        report_.stack.push_back({Ref<PyCodeObject>::share(frame->function->code), frame->line()});
    }
}

namespace {

bool is_pytorchs(PyCodeObject* code) {
    return utf8(code->co_filename).find("/torch/") != std::string_view::npos;
}

}  // namespace

void Interpreter::note_specialized() {
    using Op = Expression::Op;
    const Op last = relations_.back().condition->op;
    if (last != Op::Equal && last != Op::Same) return;
    for (const Expression* variable : numbers_.variables()) {
        const bool is_constant = variable->is_float ? relations_.back().condition->left == variable
                                                    : numbers_.resolved(variable)->op == Op::Constant;
        if (is_constant) specialized_by_.emplace(variable, static_cast<int>(relations_.size()) - 1);
    }
}

void Interpreter::guard_relation(const Expression& condition) {
    Tracer::guard_relation(condition);
    // The innermost line outside of PyTorch's own Python code, if there is one.
    Relation relation{&condition, {}};
    for (auto activation = stack_.frames.rbegin(); activation != stack_.frames.rend(); ++activation) {
        if ((*activation)->is_task) continue;
        auto* frame = static_cast<BytecodeFrame*>(*activation);
        PyCodeObject* code = frame->function->code;
        if (relation.where.code && is_pytorchs(code)) continue;
        relation.where = {Ref<PyCodeObject>::share(code), frame->line()};
        if (!is_pytorchs(code)) break;
    }
    relations_.push_back(std::move(relation));
    note_specialized();
    if (dynamic_.most_guards_of_symbol) count_guards(condition);
}

void Interpreter::count_guards(const Expression& condition) {
    for (const Expression* variable : numbers_.variables())
        if (contains(condition, variable) && ++guards_of_symbols_[variable] > *dynamic_.most_guards_of_symbol &&
            numbers_.resolved(variable)->op != Expression::Op::Constant && !variable->is_float)
            numbers_.specialize(variable);
}

void Interpreter::ask(const Expression& question) {
    const std::string text = print_by_symbols(question);
    std::string reason = is_condition(question.op) ? "the answer to " + text + " depends on "
                                                   : "the value of " + text + " is needed, which depends on ";
    needs_random_number_ = recorder_.numbers().is_drawn(question);
    reason += needs_random_number_ ? "a random number" : "the data of a tensor";
    for (const std::string& origin : recorder_.numbers().origins_of(question)) reason += "; " + origin;
    if (is_condition(question.op)) reason += ". torch._check(" + text + ") before it would answer the question";
    break_graph(BreakKind::DataDependent, std::move(reason));
}

// --- the finished trace ---------------------------------------------------------------------------------------------

std::vector<Source*> Interpreter::distinct_sources(const std::vector<Source*>& inputs) const {
    std::vector<Source*> sources;
    std::unordered_set<const void*> known;
    // Two places that hold one function are guarded to hold it, if the program has compared them.
    auto add = [&](Source* source) {
        const bool is_function = source->object != nullptr && PyFunction_Check(source->object);
        if (known.insert(is_function ? static_cast<const void*>(source->object) : source).second)
            sources.push_back(source);
    };
    // Two numbers may well be one object.
    for (Source* source : inputs)
        if (!PyLong_CheckExact(source->object) && !PyFloat_CheckExact(source->object)) add(source);
    for (Source* source : distinct_) add(source);
    const std::vector<PyTypeObject*> mutated = effect_writer_.mutated_classes();
    const bool has_writes = !recorder_.writes().inputs().empty();
    if (mutated.empty() && !has_writes) return sources;
    // If two objects of one class are the same object in another call, a mutation of one is a mutation of the other. A
    // write changes the metadata of a tensor too.
    for (auto [object, value] : by_identity_) {
        bool has_grown = value->kind == Kind::List && !static_cast<const ListValue*>(value)->appended.empty();
        bool is_read = value->realized || has_grown || value->kind == Kind::Cell;
        bool is_tensor = value->kind == Kind::Tensor || value->kind == Kind::TensorObject || value->kind == Kind::Array;
        if (is_read && is_tensor && has_writes) add(value->source);
        if (is_read && value->kind != Kind::Tensor && std::ranges::find(mutated, value->type()) != mutated.end())
            add(value->source);
    }
    return sources;
}

std::vector<UnbackedSymbol> Interpreter::unbacked_symbols() {
    std::vector<UnbackedSymbol> symbols;
    for (const Expression* number : numbers_.unbacked_numbers()) {
        UnbackedSymbol symbol{number, numbers_.resolved(number), {}, {}};
        if (!number->is_float) symbol.range = numbers_.range_of(number);
        if (auto mark = size_marks_.find(number); mark != size_marks_.end()) symbol.mark = mark->second;
        auto input = std::ranges::find(unbacked_sizes_, number, &UnbackedSize::number);
        if (input != unbacked_sizes_.end()) {
            symbol.source = input->source;
            symbol.size = input->size;
        } else if (auto origins = recorder_.numbers().origins_of(*number); !origins.empty()) {
            symbol.origin = std::move(origins.front());
        }
        symbols.push_back(std::move(symbol));
    }
    return symbols;
}

Trace Interpreter::take_trace() {
    Trace trace;
    trace.unbacked = unbacked_symbols();
    trace.broken_mark = std::move(broken_mark_);
    recorder_.move_to(trace);
    trace.distinct = distinct_sources(trace.inputs);
    trace.guards = std::move(guards_);
    trace.plan = std::move(exit_.plan);
    trace.fetched = std::move(exit_.fetched);
    trace.end = end_;
    trace.report = report_;
    trace.modes = torch_modes_.current();
    trace.reads_autocast = torch_modes_.reads_autocast();
    trace.reads_numpy_errors = torch_modes_.reads_numpy_errors();
    trace.is_compiling_was_true = is_compiling_was_true_;
    trace.inlined_torch_compile = inlined_torch_compile_;
    trace.forbids_breaks = forbids_breaks_;
    trace.mismatched_calls = std::move(mismatched_calls_);
    trace.instructions = instructions_;
    trace.traced_code = std::move(traced_code_);
    trace.decoding_seconds = decoding_seconds_;
    for (const Expression* variable : numbers_.variables()) {
        Symbol symbol{variable, numbers_.resolved(variable)};
        if (!variable->is_float) symbol.range = numbers_.range_of(variable);
        if (auto mark = size_marks_.find(variable); mark != size_marks_.end()) {
            symbol.marked = mark->second.required;
            symbol.hint_override = mark->second.hint_override;
        }
        symbol.origin = origin_of(variable);
        if (auto found = specialized_by_.find(variable); found != specialized_by_.end())
            symbol.specialized_by = found->second;
        trace.symbols.push_back(symbol);
    }
    if (!trace.symbols.empty()) {
        guard_specialized_sizes(trace.guards, trace.symbols, arena_);
        drop_weaker_bounds(trace.guards);
    }
    trace.relations = std::move(relations_);
    trace.depends_on_data = !numbers_.unbacked_numbers().empty();
    numbers_.close();
    trace.arena = std::move(owned_arena_);
    return trace;
}

}  // namespace stator

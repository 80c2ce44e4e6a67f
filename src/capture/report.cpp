#include "capture/report.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/python_error.h"
#include "base/text.h"
#include "capture/notes.h"
#include "capture/symbol_report.h"

namespace stator {

thread_local PyObject* report_listener = nullptr;
PyObject* capture_observer = nullptr;

namespace {

Ref<> text(std::string_view characters) {
    return checked(PyUnicode_DecodeUTF8(characters.data(), static_cast<Py_ssize_t>(characters.size()), "replace"));
}

void set(Borrowed<> dict, const char* key, const Ref<>& value) {
    checked(PyDict_SetItemString(dict, key, value.get()));
}

template <class Range, class Make>
Ref<> list_of(const Range& range, Make make) {
    Ref<> list = checked(PyList_New(0));
    for (const auto& item : range) checked(PyList_Append(list.get(), make(item).get()));
    return list;
}

Ref<> texts(const std::vector<std::string>& lines) {
    return list_of(lines, [](const std::string& line) { return text(line); });
}

Ref<> source_line(PyObject* file, int line) {
    Ref<> cache = checked(PyImport_ImportModule("linecache"));
    return checked(PyObject_CallMethod(cache.get(), "getline", "Oi", file, line));
}

Ref<> describe(const UserLine& at) {
    return text(callee_of(at.code.get(), at.line).print());
}

}  // namespace

Ref<> as_dict(const BreakReport& report) {
    Ref<> dict = checked(PyDict_New());
    set(dict.get(), "kind", text(name(report.kind)));
    set(dict.get(), "reason", text(report.reason));
    set(dict.get(), "hint", text(hint(report.kind)));
    std::vector<UserLine> callers;
    if (!report.stack.empty()) {
        const UserLine& at = report.stack.front();
        set(dict.get(), "file", Ref<>::share(at.code->co_filename));
        set(dict.get(), "line", checked(PyLong_FromLong(at.line)));
        set(dict.get(), "function", Ref<>::share(at.code->co_name));
        set(dict.get(), "source", source_line(at.code->co_filename, at.line));
        callers.assign(report.stack.begin() + 1, report.stack.end());
    }
    set(dict.get(), "stack", list_of(callers, describe));
    return dict;
}

namespace {

Ref<> as_dict(const CaptureReport::NodePlace& place) {
    Ref<> dict = checked(PyDict_New());
    set(dict.get(), "module", text(place.module));
    set(dict.get(), "lines", list_of(place.lines, [](const auto& at) {
            return checked(Py_BuildValue("(Ni)", text(at.first).release(), at.second));
        }));
    set(dict.get(), "share", checked(PyFloat_FromDouble(place.share)));
    return dict;
}

/// Tuples: ("instruction", code, offset, depth), ("node", name), ("guard", text), ("effect", source, class, number of
/// an object that the trace has made).
Ref<> as_list(const TraceLog& log) {
    Ref<> list = checked(PyList_New(0));
    for (const TraceLog::Event& event : log.events()) {
        Ref<> described;
        switch (event.kind) {
            case TraceLog::Event::Kind::Instruction:
                described = checked(Py_BuildValue("(sOin)", "instruction", event.code.get(), event.offset,
                                                  static_cast<Py_ssize_t>(event.depth)));
                break;
            case TraceLog::Event::Kind::Node:
                described = checked(Py_BuildValue("(sN)", "node", text(event.name).release()));
                break;
            case TraceLog::Event::Kind::Guard:
                described = checked(Py_BuildValue("(sN)", "guard", text(event.name).release()));
                break;
            case TraceLog::Event::Kind::Effect:
                described = checked(Py_BuildValue("(sNNi)", "effect", text(event.name).release(),
                                                  text(event.type).release(), event.made_object));
                break;
            case TraceLog::Event::Kind::Undone:
                continue;
        }
        checked(PyList_Append(list.get(), described.get()));
    }
    return list;
}

/// The steps of the trace, and the graph break that ended it.
void add_trace(Borrowed<> dict, const CaptureReport& report) {
    if (report.trace_log) set(dict, "trace", as_list(*report.trace_log));
    Ref<> breaks = checked(PyList_New(0));
    if (report.broken) checked(PyList_Append(breaks.get(), as_dict(*report.broken).get()));
    set(dict, "breaks", breaks);
}

Ref<> as_dict(const CaptureReport& report) {
    Ref<> dict = checked(PyDict_New());
    set(dict.get(), "code",
        report.callee.name.empty() ? describe({report.code, report.code->co_firstlineno})
                                   : text(report.callee.print()));
    Ref<> entries = checked(PyList_New(0));
    if (report.is_captured) {
        Ref<> entry = checked(PyDict_New());
        set(entry.get(), "graph", text(report.graph_text));
        set(entry.get(), "plan", text(report.plan_text));
        set(entry.get(), "nodes", checked(PyLong_FromSize_t(report.nodes)));
        set(entry.get(), "calls", checked(PyLong_FromSize_t(report.calls)));
        set(entry.get(), "inputs", checked(PyLong_FromSize_t(report.inputs)));
        set(entry.get(), "guard_count", checked(PyLong_FromSize_t(report.guard_count)));
        set(entry.get(), "guards", texts(report.guards));
        set(entry.get(), "guard_steps", texts(report.guard_steps));
        Ref<> times = checked(PyDict_New());
        for (const auto& [step, seconds] : report.times) set(times.get(), step, checked(PyFloat_FromDouble(seconds)));
        set(entry.get(), "times", times);
        set(entry.get(), "knowledge", texts(report.knowledge));
        set(entry.get(), "symbols", texts(report.symbols));
        set(entry.get(), "relations", list_of(report.relations, [](const CaptureReport::RelationLine& relation) {
                Ref<> described = checked(PyDict_New());
                set(described.get(), "text", text(relation.text));
                if (relation.where.code) set(described.get(), "where", describe(relation.where));
                return described;
            }));
        Ref<> places = checked(PyDict_New());
        for (const CaptureReport::NodePlace& place : report.places)
            set(places.get(), place.node.c_str(), as_dict(place));
        set(entry.get(), "places", places);
        checked(PyList_Append(entries.get(), entry.get()));
    }
    set(dict.get(), "entries", entries);
    set(dict.get(), "line", checked(PyLong_FromLong(report.start.line)));
    if (report.has_texts && !report.recompiled.empty()) {
        Ref<> recompiled = checked(PyDict_New());
        set(recompiled.get(), "file", text(report.start.file));
        set(recompiled.get(), "line", checked(PyLong_FromLong(report.start.line)));
        set(recompiled.get(), "source", source_line(text(report.start.file).get(), report.start.line));
        set(recompiled.get(), "reasons", texts(report.recompiled));
        set(dict.get(), "recompiled", recompiled);
    }
    if (!report.mismatched_calls.empty())
        set(dict.get(), "mismatched_calls", list_of(report.mismatched_calls, [](const MismatchedCall& call) {
                Ref<> described = checked(PyDict_New());
                set(described.get(), "reason", text(call.reason));
                set(described.get(), "function", describe({call.function, call.function->co_firstlineno}));
                set(described.get(), "arguments", texts(call.argument_types));
                if (call.caller.code) set(described.get(), "caller", describe(call.caller));
                return described;
            }));
    add_trace(dict.get(), report);
    return dict;
}

/// The part of the time up to the last node that passed between each node and the one before.
std::unordered_map<const graph::Node*, double> shares_of_time(const std::vector<NodeTicks>& ticks) {
    std::unordered_map<const graph::Node*, double> shares;
    if (ticks.empty() || ticks.back().at <= ticks.front().at) return shares;
    const auto whole = static_cast<double>(ticks.back().at - ticks.front().at);
    for (std::size_t i = 1; i < ticks.size(); ++i)
        shares[ticks[i].node] += static_cast<double>(ticks[i].at - ticks[i - 1].at) / whole;
    return shares;
}

}  // namespace

void CaptureReport::describe_places(const Trace& trace) {
    places.clear();
    trace.graph->ensure_names();
    const std::unordered_map<const graph::Node*, double> shares = shares_of_time(trace.node_ticks);
    for (const graph::Node* node : trace.graph->nodes()) {
        if (node->location == nullptr) continue;
        NodePlace& place = places.emplace_back();
        place.node = node->name;
        if (node->modules != nullptr) place.module = graph::print(*node->modules);
        for (const graph::Location* at = node->location; at != nullptr; at = at->caller)
            place.lines.emplace_back(utf8(at->code->co_filename), at->line);
        if (auto found = shares.find(node); found != shares.end()) place.share = found->second;
    }
}

void CaptureReport::describe_numbers(const Trace& trace) {
    symbols = print_symbols(trace);
    relations.clear();
    for (const Relation& relation : trace.relations)
        relations.push_back(
            {print(*relation.condition), {Ref<PyCodeObject>::share(relation.where.code.get()), relation.where.line}});
}

void CaptureReport::add_backend_relation(const std::string& text) {
    if (has_texts) relations.push_back({text + ", which the backend needs", {}});
}

void CaptureReport::add_time(const char* stage, double seconds) {
    auto found = std::ranges::find(times, std::string_view(stage), &std::pair<const char*, double>::first);
    if (found != times.end())
        found->second += seconds;
    else
        times.emplace_back(stage, seconds);
}

namespace {

/// None if the function has no arguments.
PyObject* first_argument(cpython::Frame* frame) {
    if (cpython::code_of(frame)->co_argcount == 0) return Py_None;
    PyObject* first = cpython::slots(frame)[0];
    if (first != nullptr && PyCell_Check(first)) first = PyCell_GET(first);
    return first == nullptr ? Py_None : first;
}

/// `stator.progress.NAME(...)`, which raises nothing. Nothing if the error output is not a terminal.
bool tell_progress(const char* name, PyCodeObject* code) {
    static const bool has_terminal = isatty(STDERR_FILENO) != 0;
    if (!has_terminal) return false;
    ErrorAside aside;
    Ref<> progress = Ref<>::steal(PyImport_ImportModule("stator.progress"));
    Ref<> told = progress
                     ? Ref<>::steal(PyObject_CallMethod(progress.get(), name, "O",
                                                        code == nullptr ? Py_None : reinterpret_cast<PyObject*>(code)))
                     : Ref<>();
    if (!told) end_exception_of(nullptr);
    return static_cast<bool>(told);
}

}  // namespace

ObservedCapture::ObservedCapture(const CompileOptions& options, cpython::Frame* frame, bytecode::Index at,
                                 std::size_t entries, CaptureReport& report) {
    PyCodeObject* code = cpython::code_of(frame);
    is_shown_ = tell_progress("began", code);
    report.listener = options.listener;
    report.has_texts = report_listener != nullptr || options.listener;
    if (capture_observer == nullptr) return;
    observer_ = Ref<>::share(capture_observer);
    Ref<> answer =
        Ref<>::steal(PyObject_CallMethod(observer_.get(), "began", "OnOi", code, static_cast<Py_ssize_t>(entries),
                                         first_argument(frame), static_cast<int>(at.value)));
    if (!answer) {
        end_exception_of(observer_.get());
        observer_ = Ref<>();  // for it, the capture has not begun
    }
    const long wanted = answer ? PyLong_AsLong(answer.get()) : 0;
    if (PyErr_Occurred() != nullptr) end_exception_of(observer_.get());
    report.has_texts |= wanted > 0;
    if (wanted > 1) report.trace_log.emplace();
}

ObservedCapture::~ObservedCapture() {
    if (is_shown_) tell_progress("ended", nullptr);
    if (!observer_) return;
    ErrorAside aside;
    Ref<> done = Ref<>::steal(PyObject_CallMethod(observer_.get(), "ended", nullptr));
    if (!done) end_exception_of(observer_.get());
}

Ref<> ObservedCapture::compile_id() const {
    if (!observer_) return {};
    Ref<> id = Ref<>::steal(PyObject_CallMethod(observer_.get(), "compile_id", nullptr));
    if (!id) end_exception_of(observer_.get());
    return id;
}

void ObservedCapture::tell_of_recompile(const CaptureReport& report) const {
    if (!observer_ || report.recompiled.empty()) return;
    ErrorAside aside;
    try {
        Ref<> ids = list_of(report.compile_ids, [](const Ref<>& id) { return id ? Ref<>(id) : Ref<>::share(Py_None); });
        checked(PyObject_CallMethod(observer_.get(), "recompiling", "OO", texts(report.recompiled).get(), ids.get()));
    } catch (const PythonError&) {
        end_exception_of(observer_.get());
    }
}

void tell_observer_of_trace(const CaptureReport& report) {
    if (capture_observer == nullptr || !report.has_texts) return;
    ErrorAside aside;
    try {
        Ref<> dict = checked(PyDict_New());
        add_trace(dict.get(), report);
        set(dict.get(), "symbols", texts(report.symbols));
        checked(PyObject_CallMethod(capture_observer, "traced", "O", dict.get()));
    } catch (const PythonError&) {
        end_exception_of(capture_observer);
    }
}

void tell_listener_of_recompile(Borrowed<> listener, const std::vector<std::string>& reasons) {
    ErrorAside aside;
    try {
        Ref<> recompiled = checked(PyDict_New());
        set(recompiled.get(), "reasons", list_of(reasons, [](const std::string& reason) { return text(reason); }));
        Ref<> report = checked(PyDict_New());
        set(report.get(), "recompiled", recompiled);
        checked(PyObject_CallOneArg(listener.get(), report.get()));
    } catch (const PythonError&) {
        end_exception_of(listener);
    }
}

void publish(const CaptureReport& report) {
    if (report_listener == nullptr && capture_observer == nullptr && !report.listener) return;
    ErrorAside aside;
    std::vector<Ref<>> receivers;
    if (report_listener != nullptr) receivers.push_back(Ref<>::share(report_listener));
    if (report.listener) receivers.push_back(report.listener);
    if (capture_observer != nullptr)
        receivers.push_back(Ref<>::steal(PyObject_GetAttrString(capture_observer, "captured")));
    for (const Ref<>& receiver : receivers) {
        try {
            checked(PyObject_CallOneArg(receiver.get(), as_dict(report).get()));
        } catch (const PythonError&) {
            end_exception_of(receiver.get());
        }
    }
}

BreakReport internal_error(PyCodeObject* code, const std::string& reason) {
    BreakReport broken{BreakKind::Internal, reason, {}};
    broken.stack.push_back({Ref<PyCodeObject>::share(code), code->co_firstlineno});
    return broken;
}

void report_internal_error(PyCodeObject* code, const std::string& reason) {
    BreakReport broken = internal_error(code, reason);
    CaptureReport report;
    report.code = Ref<PyCodeObject>::share(code);
    report.broken = broken;
    publish(report);
    warn_of_internal_error(broken);
}

void warn_of_internal_error(const BreakReport& report) {
    if (report.stack.empty()) return;
    const Callee where = callee_of(report.stack.front().code.get(), report.stack.front().line);
    static bool has_warned = false;
    const bool is_first = !std::exchange(has_warned, true);
    std::string text = "Internal error of Stator at " + where.print() + ": " + report.reason +
                       ". The frame runs uncompiled, with correct results.";
    if (is_first)
        text +=
            " To report this, set stator.config.record_errors to a folder, run the program again, and send the "
            "file that the message then names with the output of `python -m stator`. Later errors of this process "
            "go to the logger 'stator'.";
    issue_note(is_first ? NoteKind::Warning : NoteKind::Information, NoteOnce::AtPlace, "internal_error", where, text);
}

void raise_unsupported(const BreakReport& report) {
    Ref<> errors = checked(PyImport_ImportModule("stator.errors"));
    checked(PyObject_CallMethod(errors.get(), "raise_unsupported", "O", as_dict(report).get()));
    PyErr_SetString(PyExc_RuntimeError, "stator.errors.raise_unsupported did not raise");
    throw PythonError();
}

}  // namespace stator

#include "run/cache.h"

#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/code_object.h"
#include "run/report.h"

namespace stator {

namespace {

/// `stator.settings.values[name]`, a plain dict.
long setting(const char* name, long otherwise) {
    ErrorAside aside;
    Ref<> module = Ref<>::steal(PyImport_ImportModule("stator.settings"));
    Ref<> values = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), "values")) : Ref<>();
    PyObject* value = values && PyDict_Check(values.get()) ? PyDict_GetItemString(values.get(), name) : nullptr;
    long number = value == nullptr ? otherwise : PyLong_AsLong(value);
    PyErr_Clear();
    return number;
}

}  // namespace

PyObject* EntryCache::run(PyThreadState* thread, cpython::Frame* frame) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        if (!entries_[i]->matches(frame)) continue;
        if (i > 0) std::rotate(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(i),
                               entries_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        if (!entries_[0]->is_captured) return cpython::run_untouched(thread, frame);
        std::shared_ptr<Entry> entry = entries_[0];
        return run_entry(*entry, thread, frame);
    }
    return miss(thread, frame);
}

void EntryCache::learn_changes(cpython::Frame* frame) {
    auto* function = reinterpret_cast<PyObject*>(cpython::function_of(frame));
    for (const auto& entry : entries_) {
        if (cpython::code_of(frame) != entry->code.get()) continue;
        for (std::string& place : entry->guards.changed_integers(cpython::slots(frame), function))
            dynamic_.changing.insert(std::move(place));
    }
}

PyObject* EntryCache::miss(PyThreadState* thread, cpython::Frame* frame) {
    auto bound = static_cast<std::size_t>(setting("entry_bound", 8));
    if (entries_.size() >= bound && !options_.fullgraph) {
        warn_of_bound(frame);
        if (PyErr_Occurred() != nullptr)
            return cpython::run_raising(thread, frame, cpython::body_start(cpython::code_of(frame)));
        return cpython::run_untouched(thread, frame);
    }
    learn_changes(frame);
    std::shared_ptr<Entry> entry;
    try {
        entry = capture(frame);
    } catch (const PythonError&) {
        return cpython::run_raising(thread, frame, cpython::body_start(cpython::code_of(frame)));
    } catch (const std::exception& error) {
        // An error of Stator's own never reaches the program.
        report_internal_error(cpython::code_of(frame), error.what());
    }
    if (entry == nullptr) return cpython::run_untouched(thread, frame);
    entries_.insert(entries_.begin(), entry);
    if (!entry->is_captured) return cpython::run_untouched(thread, frame);
    // The first run takes the way of every later one.
    if (!entry->matches(frame)) return cpython::run_untouched(thread, frame);
    return run_entry(*entry, thread, frame);
}

void EntryCache::warn_of_bound(cpython::Frame* frame) {
    if (warned_) return;
    warned_ = true;
    auto* function = reinterpret_cast<PyObject*>(cpython::function_of(frame));
    std::string guilty = entries_.front()->guards.explain(cpython::slots(frame), function);
    if (guilty.empty()) guilty = torch_room::explain_mismatch(entries_.front()->state);
    PyCodeObject* code = cpython::code_of(frame);
    PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                     "Stator has captured %s (%s:%d) %zu times, which is the bound: further variants run uncompiled. "
                     "The last capture does not fit because %s. Make that the same on every call, or raise "
                     "stator.config.entry_bound.",
                     PyUnicode_AsUTF8(code->co_qualname), PyUnicode_AsUTF8(code->co_filename), code->co_firstlineno,
                     entries_.size(), guilty.c_str());
}

void EntryCache::clear() {
    // Releasing an entry may run anything; it must find the cache empty by then.
    std::vector<std::shared_ptr<Entry>> released;
    released.swap(entries_);
    dynamic_ = {};
    warned_ = false;
}

void EntryCache::visit(const std::function<void(PyObject*)>& visitor) const {
    if (options_.backend) visitor(options_.backend.get());
    for (const auto& entry : entries_) entry->visit(visitor);
}

}  // namespace stator

/// The entries of one compiled callable, and what happens to a frame of it: look up, run, or capture.
#pragma once

#include <memory>
#include <vector>

#include "run/entry.h"
#include "source/dynamic.h"

namespace stator {

/// How a callable was compiled.
struct CompileOptions {
    Ref<> backend;  // backend(graph_module, example_inputs) -> callable
    bool fullgraph = false;
};

class EntryCache {
  public:
    explicit EntryCache(CompileOptions options) : options_(std::move(options)) {}

    /// Answers for a frame at its start. Leaves it.
    PyObject* run(PyThreadState* thread, cpython::Frame* frame);

    void clear();
    std::span<const std::shared_ptr<Entry>> entries() const { return entries_; }
    const CompileOptions& options() const { return options_; }
    void visit(const std::function<void(PyObject*)>& visitor) const;
    /// Lets go of the backend too.
    void release() {
        clear();
        options_.backend = {};
    }

  private:
    PyObject* miss(PyThreadState* thread, cpython::Frame* frame);
    /// A new entry for the frame; null where it runs uncompiled without being remembered. Throws PythonError.
    std::shared_ptr<Entry> capture(cpython::Frame* frame);
    void warn_of_bound(cpython::Frame* frame);

    CompileOptions options_;
    /// Learns from an entry that does not fit which ints change.
    void learn_changes(cpython::Frame* frame);

    std::vector<std::shared_ptr<Entry>> entries_;  // the one used last first
    DynamicSources dynamic_;
    bool warned_ = false;
};

/// How many captures succeeded since the process began.
std::size_t capture_count();

/// Called with a dict (see python/stator/report.py) after every attempt at a capture; null if nobody listens.
extern thread_local PyObject* report_listener;

}  // namespace stator

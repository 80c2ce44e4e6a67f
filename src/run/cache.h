/// The entries of one compiled callable, and what happens to a frame of it: look up, run, or capture.
///
/// All of that may run Python code: guards of unusual objects, fake implementations of operations, backends, the
/// program's own hooks and finalizers. That code, or another thread meanwhile, may call back here: capture, reset, drop
/// the callable. So whoever runs owns what it uses. A call owns the callable and with it the cache, a look-up its
/// `EntryPoint`, a run its `Entry`, and a capture has a copy of what was learnt. `clear` only takes them out of reach:
/// what is captured meanwhile goes to a point that nobody looks at any more.
#pragma once

#include <unordered_map>
#include <vector>

#include "run/entry_point.h"
#include "source/dynamic.h"
#include "trace/interpreter.h"

namespace stator {

struct CaptureReport;
struct Exit;

/// How a callable was compiled.
struct CompileOptions {
    Ref<> backend;  // backend(graph_module, example_inputs) -> callable
    bool fullgraph = false;
    bool registers_attributes = false;  // parameters and buffers become attributes of the graph module
};

/// What earlier captures of a function have taught.
struct Learnt {
    DynamicSources numbers;
    /// Functions that turned out not to be worth following.
    CodeSet called_whole;
};

class EntryCache {
  public:
    explicit EntryCache(CompileOptions options);
    ~EntryCache();
    EntryCache(const EntryCache&) = delete;
    EntryCache& operator=(const EntryCache&) = delete;

    /// Answers for a frame at its start. Leaves it.
    PyObject* run(PyThreadState* thread, cpython::Frame* frame, bool is_main = true);
    /// The entry whose guards hold for a frame that is about to execute `at`, captured if there is none; null where the
    /// frame is left to CPython. Throws PythonError.
    Shared<Entry> find_or_capture(cpython::Frame* frame, bytecode::Index at, bool is_main);

    /// Brings a frame to the operation at which the graph of an entry failed; false if that can't be done, which leaves
    /// the frame as it is. The exception that is set stays. Does not throw.
    bool exit_before_failure(PyThreadState* thread, cpython::Frame* frame, bytecode::Index at,
                             const graph::Failure& failure, Exit* exit);

    /// Whether a call has ever looked for an entry that was not there.
    bool was_entered() const { return was_entered_; }
    void clear();
    std::vector<Shared<Entry>> entries() const;
    const CompileOptions& options() const { return options_; }
    void visit(const std::function<void(PyObject*)>& visitor) const;
    /// Lets go of the backend too.
    void release() {
        clear();
        options_.backend = {};
    }

  private:
    struct Place {
        PyCodeObject* code;  // its entries keep it alive
        bytecode::Index at;
        friend bool operator==(const Place&, const Place&) = default;
    };
    struct HashPlace {
        std::size_t operator()(const Place& place) const {
            return (reinterpret_cast<std::size_t>(place.code) >> 4) * 31 + static_cast<std::size_t>(place.at.value);
        }
    };

    Shared<EntryPoint> point_at(cpython::Frame* frame, bytecode::Index at, bool is_main) {
        return is_main ? start_ : inner_point(frame, at);
    }
    Shared<EntryPoint> inner_point(cpython::Frame* frame, bytecode::Index at);
    Shared<Entry> miss(EntryPoint& point, cpython::Frame* frame, bytecode::Index at, bool is_main,
                       const Ref<>& forced_backend);
    Learnt learnt_of(PyCodeObject* code) const;
    /// Whether the stance wants what has no entry to be captured. Throws PythonError where it wants an error.
    bool may_capture(EntryPoint& point, cpython::Frame* frame, bytecode::Index at);
    /// A new entry for the frame; null where it runs uncompiled without being remembered. Throws PythonError.
    Shared<Entry> capture(cpython::Frame* frame, bytecode::Index at, const CompileOptions& options, Learnt& learnt,
                          CaptureReport& report);
    /// An entry that was captured for another instance of the frame's class, compiled in the same way, and that fits
    /// this one as well; null if there is none. Many layers of one kind then cost one capture.
    Shared<Entry> captured_for_another(cpython::Frame* frame, bytecode::Index at, bool is_main,
                                       const Ref<>& forced_backend) const;
    bool compiles_like(const EntryCache& other) const;
    /// Whether there is room for one more; forgets the entries of instances that are gone.
    static bool has_room(EntryPoint& point, cpython::Frame* frame);
    /// Learns from entries that do not fit which ints change.
    void learn_changes(const EntryPoint& point, cpython::Frame* frame);
    /// With `fullgraph` nothing runs uncompiled: raises `stator.RecompileLimitHit`.
    [[noreturn]] static void raise_recompile_limit(const EntryPoint& point, cpython::Frame* frame, bytecode::Index at);
    static void warn_of_recompile_limit(EntryPoint& point, cpython::Frame* frame, bytecode::Index at);

    CompileOptions options_;
    bool was_entered_ = false;
    Shared<EntryPoint> start_;  // of the callable's own function, whatever its code becomes
    std::unordered_map<Place, Shared<EntryPoint>, HashPlace> inner_;
    /// By the code of the frame; an address that comes again costs a capture at most.
    std::unordered_map<PyCodeObject*, DynamicSources> dynamic_;
    CodeSet called_whole_;
};

/// How many captures succeeded since the process began.
std::size_t capture_count();

/// Called with a dict (see python/stator/report.py) after every attempt at a capture; null if nobody listens.
extern thread_local PyObject* report_listener;

}  // namespace stator

/// The entries of one compiled callable, by the instruction where they start, and what was learned for them. Looking
/// up, capturing and running may run Python code: guards of unusual objects, fake implementations of operations,
/// backends, hooks and finalizers of the program. That code, or another thread meanwhile, may call back here: capture,
/// reset, drop the callable. So every user owns what it uses: a call owns the callable and with it the cache, a lookup
/// its `EntryPoint`, a run its `Entry`, and a capture the knowledge that it started with. `clear` only detaches them:
/// entries captured meanwhile go to a point that is no longer looked up.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "capture/options.h"
#include "run/entry_point.h"
#include "source/knowledge.h"

namespace stator {

/// What a callable was compiled for, as seen in its first call that captures.
struct CacheUse {
    PyCodeObject* code = nullptr;           // of its function; only compared
    PyObject* globals = nullptr;            // of its function; only compared
    PyTypeObject* class_of_self = nullptr;  // if that is a method; only compared
    std::string settings;                   // those that decide what is captured
    friend bool operator==(const CacheUse&, const CacheUse&) = default;
};

/// An entry of a callable, and what that callable was compiled with.
struct OwnedEntry {
    Shared<Entry> entry;
    Ref<> backend;
    Ref<> listener;
    long region = -1;
};

class EntryCache {
  public:
    explicit EntryCache(CompileOptions options);
    ~EntryCache();
    EntryCache(const EntryCache&) = delete;
    EntryCache& operator=(const EntryCache&) = delete;

    /// The entry point of a frame that is about to execute `at`. `is_main`: it is the frame of the compiled callable
    /// itself, at its start.
    Shared<EntryPoint> point_at(cpython::Frame* frame, bytecode::Index at, bool is_main) {
        return is_main ? start_ : inner_point(frame, at);
    }
    /// Entries of callables that were compiled with the same options, under the same settings, for the same instruction
    /// of the same code.
    std::vector<OwnedEntry> entries_of_others(cpython::Frame* frame, bytecode::Index at, bool is_main) const;
    /// The captured entries of all callables, freed ones that are kept included, that start at an instruction of the
    /// code: those of a callable together, its last used one first. An entry that several callables use is listed once.
    static std::vector<OwnedEntry> entries_of(PyCodeObject* code, bytecode::Index at);
    /// The instructions after graph breaks at which entries of a code object start.
    static std::vector<bytecode::Index> resumed_at(PyCodeObject* code);
    /// Whether entries of the other could have been captured here. May run any code.
    bool compiles_like(const EntryCache& other) const;
    const CacheUse& use() const { return use_; }
    void set_use(CacheUse use) { use_ = std::move(use); }
    /// Takes all entries of another cache, and what was learned for them.
    void take_over(EntryCache& other);
    /// Shares what was learned for the entries of another cache.
    void learn_from(const EntryCache& other);
    /// Whether an entry for the start of the callable's function matches the frame. May run any code.
    bool has_entry_for(cpython::Frame* frame, const Ref<>& forced_backend) const {
        Shared<EntryPoint> start = start_;
        return bool(start->find(frame, forced_backend));
    }
    SharedKnowledge& knowledge_of(PyCodeObject* code);
    /// The options with the backend that a stance forces, if there is one. Throws PythonError.
    CompileOptions options_with(const Ref<>& forced_backend) const;

    /// Whether a call has ever missed the cache.
    bool was_entered() const { return was_entered_; }
    void note_entered() { was_entered_ = true; }
    void clear();
    std::vector<Shared<Entry>> entries() const;
    const CompileOptions& options() const { return options_; }
    void visit(const std::function<void(PyObject*)>& visitor) const;
    /// Releases the backend too.
    void release() {
        clear();
        options_.backend = {};
        options_.listener = {};
        options_.before_capture = {};
        options_.guard_filter = {};
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

    /// What changed between the calls of all others: it depends on the program alone. As in torch.compile, an isolated
    /// callable starts with that.
    Knowledge changes_seen_by_others(PyCodeObject* code) const;
    OwnedEntry owned(Shared<Entry> entry) const {
        return {std::move(entry), options_.backend, options_.listener, options_.region};
    }
    Shared<EntryPoint> inner_point(cpython::Frame* frame, bytecode::Index at);

    CompileOptions options_;
    CacheUse use_;
    bool was_entered_ = false;
    Shared<EntryPoint> start_;  // of the callable's own function, even if its code is replaced
    std::unordered_map<Place, Shared<EntryPoint>, HashPlace> inner_;
    /// By the code of the frame. A reused address costs one capture at most.
    std::unordered_map<PyCodeObject*, Shared<SharedKnowledge>> knowledge_;
};

}  // namespace stator

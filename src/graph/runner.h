/// Runs a finished graph from C++, as the generated `forward` of `torch.fx` would.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ref.h"
#include "graph/node.h"
#include "graph/registers.h"

namespace stator::graph {

/// An operation that raised in the middle of a run.
struct Failure {
    std::uint32_t serial = 0;  // of its node
    Ref<> target;
    // Flags of the operations up to this one, as of nodes; this one may have been executed partly.
    bool is_visible_to_program = false;
    bool is_lasting = false;
    bool has_effect = false;                          // of this one
    std::unordered_map<std::uint32_t, Ref<>> values;  // results that are still in use, by the serials of their nodes
};

class Program;

/// Whether parts of a program are recorded as CUDA graphs, and where their results are.
enum class Recording : std::uint8_t { Off, FreshResults, OverwrittenResults };

/// The graph as a flat program over registers. It does not refer to the graph afterwards.
class Runner {
  public:
    explicit Runner(const Graph& graph);
    ~Runner();
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    /// From now on runs look for operations that need no Python call (graph/program.h).
    void prepare_calls(Recording recording);
    const Program* program() const { return program_.get(); }

    /// The graph's results for its inputs, one for each placeholder; null with the error indicator set if an operation
    /// raised, which is described in `failure` if given. The inputs are borrowed. Attributes are read from `module`,
    /// which may be null if there are none.
    Ref<> run(std::span<PyObject* const> inputs, Borrowed<> module = nullptr,
              std::optional<Failure>* failure = nullptr) const;

    std::size_t input_count() const { return placeholders_.size(); }
    /// The targets of the placeholders: `L_x_`.
    std::vector<std::string> placeholders() const;
    bool reads_attributes() const { return reads_attributes_; }

    int traverse(visitproc visit, void* arg) const;

  private:
    /// An operand: bits of `kind` and an index.
    struct Operand {
        enum class Kind : std::uint8_t { Input, Register, Constant, Container };
        Kind kind;
        std::uint32_t number;
    };
    struct Container {
        Argument::Kind kind;
        std::vector<Operand> values;
        std::vector<Ref<>> keys;
        Ref<> type;  // null for the plain container
    };
    struct Step {
        NodeKind kind;
        std::uint32_t first_operand;
        std::uint16_t positional;  // operands before the keywords
        std::uint16_t operands;
        std::uint32_t result;                   // register
        std::uint32_t serial;                   // of its node
        std::uint32_t first_release, releases;  // registers that are not read after this step
        PyObject* target;                       // in kept_
        PyObject* keyword_names;                // in kept_, or null
        binaryfunc binary;                      // what the target does, if it is an operator of two operands
        bool has_effect, is_visible_to_program, is_lasting;  // as of its node
        bool gives_token;  // enters a context, which a later step leaves with this token
    };
    friend class Program;
    struct Placeholder {
        Ref<> target;          // where it has no path
        const PathText* path;  // in texts_
    };

    Operand operand(const Argument& argument);
    void add_step(const Node& node);
    void release_after_last_use(const Graph& graph);
    PyObject* keep(Ref<> object);

    Ref<> run_as_captured(std::span<PyObject* const> inputs, Borrowed<> module, std::optional<Failure>* failure) const;
    /// Sets the step's register; false with the error indicator set if it raised.
    bool call(const Step& step, std::span<PyObject* const> inputs, Borrowed<> module, Registers& registers) const;
    bool call_here(const Step& step, std::span<PyObject* const> inputs, Borrowed<> module, Registers& registers) const;
    /// Describes a step that raised. Null.
    Ref<> fail(const Step& step, Registers& registers, std::optional<Failure>* failure) const;
    Failure failure_at(const Step& failed, const Registers& registers) const;
    /// Exits the contexts that are open at a failed step, innermost first. Keeps the exception that is set.
    void leave_contexts(const Step& failed, Registers& registers) const;
    Ref<> value(Operand operand, std::span<PyObject* const> inputs, const Registers& registers) const;
    Ref<> build(const Container& container, std::span<PyObject* const> inputs, const Registers& registers) const;

    std::vector<Step> steps_;
    std::vector<Operand> operands_;
    std::vector<std::uint32_t> released_;
    std::vector<Container> containers_;
    std::vector<Ref<>> kept_;
    std::vector<PyObject*> constants_;  // in kept_
    std::vector<Placeholder> placeholders_;
    std::shared_ptr<Arena> texts_;              // of the placeholders' paths
    std::vector<std::uint32_t> place_of_node_;  // while building: input number or register, by node index
    std::uint32_t registers_ = 0;
    std::uint32_t longest_call_ = 0;
    bool reads_attributes_ = false;
    bool has_fixed_sizes_ = true;   // no number and no size changes between calls
    bool has_held_values_ = false;  // some step keeps values for the program
    std::unique_ptr<Program> program_;
    Operand output_{};
};

/// The same as a Python callable (`stator._C.Runner`) for a captured graph (graph/captured.h). `module`, whose
/// attributes the graph reads, may be null. Throws `PythonError`.
enum class Calls : std::uint8_t { AsCaptured, Prepared };
/// By the options of the backend `stator`.
inline Recording recording_of(bool records, bool overwrites) {
    if (!records) return Recording::Off;
    return overwrites ? Recording::OverwrittenResults : Recording::FreshResults;
}
Ref<> make_runner(Borrowed<> captured, Borrowed<> module, Calls calls = Calls::AsCaptured,
                  Recording recording = Recording::FreshResults);
/// The runner of such a callable, null for another object, and the module to run it with. Valid as
/// long as the callable.
const Runner* runner_of(Borrowed<> object);
Borrowed<> module_of_runner(Borrowed<> object);
/// Readies the type and adds it to the module.
bool add_runner_type(PyObject* module);

}  // namespace stator::graph

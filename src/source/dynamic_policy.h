/// Which numbers and sizes of tensors become symbols, besides those that were seen to change: `dynamic=`, and the
/// settings of PyTorch when the capture begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ref.h"
#include "source/source.h"

namespace stator {

/// The argument `dynamic` of `stator.compile`: False, None or True.
enum class DynamicShapes : std::uint8_t { Never, Automatic, Always };

/// Why a number or a size is a symbol.
enum class SymbolOrigin : std::uint8_t {
    Changed,      // it had another value in another call
    Assigned,     // a variable that the program assigns before a graph break
    Marked,       // `mark_dynamic`
    MaybeMarked,  // `maybe_mark_dynamic`
    Unbacked,     // `mark_unbacked`, `unbacked_sources`
    Named,        // `dynamic_sources`
    Listed,       // `dynamic_values`
    Default,      // `dynamic=True`
};
/// In words, after "it is dynamic because": `it changed between calls`.
const char* print(SymbolOrigin origin);

struct DynamicPolicy {
    /// What has changed between calls becomes a symbol (`automatic_dynamic_shapes`).
    bool is_automatic = true;
    /// Nothing else does (`assume_static_by_default`).
    bool is_static_by_default = true;
    bool specializes_ints = false;             // `specialize_int`
    bool specializes_floats = false;           // `specialize_float`
    bool has_static_parameters = true;         // `force_parameter_static_shapes`
    bool has_static_module_properties = true;  // `force_nn_module_property_static_shapes`
    bool has_dynamic_ints_of_modules = false;  // `allow_unspec_int_on_nn_module`
    bool shares_symbols = true;                // `use_duck_shape`: equal sizes are taken to stay equal
    bool may_specialize_marked_sizes = false;  // `allow_ignore_mark_dynamic`
    /// A symbol with more guards is specialized (`symbol_guard_limit_before_specialize`).
    std::optional<std::int64_t> most_guards_of_symbol;

    /// An entry of `torch.compiler.config.dynamic_sources` or `unbacked_sources`.
    struct NamedSource {
        std::string name;
        Ref<> pattern;       // the name as a compiled regular expression; empty if it is none
        int dimension = -1;  // of a tensor; -1 for all
    };
    std::vector<NamedSource> named;
    std::vector<NamedSource> unbacked;  // those of `unbacked_sources` alone, which are in `named` too
    std::vector<std::int64_t> values;   // `torch.compiler.config.dynamic_values`

    /// Whether something that was not seen to change may be a symbol, unless tensors are marked.
    bool may_be_dynamic_at_first() const { return !is_static_by_default || !named.empty() || !values.empty(); }
    /// Whether the settings name a number or a tensor; `dimension` is -1 for "any".
    bool names(const Source& source, int dimension = -1) const;
    /// Whether they name the size of a tensor as one that is unbacked.
    bool names_unbacked(const Source& source, int dimension) const;
    bool has_value(std::int64_t number) const;
};

/// The module that holds an object as an attribute, an item of an attribute and so on: the nearest one. Null if there
/// is none.
PyObject* module_above(const Source& source);
/// Whether a module is one of PyTorch's, or of a class that is marked with `torch._dynamo.mark_static`: its attributes
/// are taken to be constants.
bool is_static_module(PyObject* module);
/// Whether it is in the `_parameters` or `_buffers` of a module.
bool is_parameter_or_buffer(const Source& source);
/// Whether it is reached from the arguments of the function, and is neither a default nor an attribute of a module.
bool is_of_arguments(const Source& source);

}  // namespace stator

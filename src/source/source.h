/// Where a value came from. Sources form a tree whose roots are the slots of the entered frame and a few pinned
/// objects; guards, the fetching of inputs, the rebuilding of values and the text of messages are derived from it.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/arena.h"
#include "base/ref.h"
#include "number/expression.h"

namespace stator {

struct Value;

/// How a source is read from its parent. Each is a plain memory read: fetching never runs user code.
enum class Access : std::uint8_t {
#define ACCESS(name) name,
#include "source/accesses.def"
#undef ACCESS
};

/// The text of a source, in pieces, so that sources deep in a model share their prefixes. May outlive the source.
struct PathText {
    const PathText* before = nullptr;
    std::string piece;
};

struct Source {
    Access access;
    std::int32_t number = 0;
    Source* parent = nullptr;
    PyObject* key = nullptr;            // kept alive by the arena
    PyObject* label = nullptr;          // the text, if it differs from the access; kept alive by the arena
    PyObject* object = nullptr;         // the object during the trace; null if there was none (an empty cell)
    Value* value = nullptr;             // the value of the object, if one was made
    bool varies = false;                // a number there is likely to change
    const PathText* text = nullptr;     // see `path_text`
    std::int32_t register_number = -1;  // set when the guard program is built
};

/// All sources of one trace, one for each place.
class Provenance {
  public:
    explicit Provenance(Arena& arena) : arena_(arena) {}

    Source* slot(int number, Borrowed<> name, Borrowed<> object);
    Source* function(Borrowed<> object);
    Source* handled_exception(Borrowed<> object);
    Source* pinned(Borrowed<> object);
    /// The child of `parent` by this access; `object` is what was read there. `is_new` tells whether this call created
    /// it.
    Source* child(Source* parent, Access access, Borrowed<> key, int number, Borrowed<> object, bool* is_new = nullptr);

    const std::vector<Source*>& roots() const { return roots_; }

  private:
    /// Keys are compared by identity: attribute names are interned, and two sources for one place only cost a second
    /// look-up.
    struct ChildKey {
        Source* parent;
        Access access;
        std::int32_t number;
        PyObject* key;
        friend bool operator==(const ChildKey&, const ChildKey&) = default;
    };
    struct HashChildKey {
        std::size_t operator()(const ChildKey& place) const {
            auto mix = [](std::size_t seed, std::size_t value) { return (seed ^ value) * 0x9E3779B97F4A7C15ull; };
            std::size_t hash = mix(0, reinterpret_cast<std::size_t>(place.parent));
            hash = mix(hash, static_cast<std::size_t>(place.access) << 32 | static_cast<std::uint32_t>(place.number));
            return mix(hash, reinterpret_cast<std::size_t>(place.key));
        }
    };
    Source* root(Access access, Borrowed<> key, int number, Borrowed<> object);

    Arena& arena_;
    std::vector<Source*> roots_;
    std::unordered_map<PyObject*, Source*> pinned_;
    /// Thousands of small entries that are freed together.
    std::pmr::monotonic_buffer_resource memory_{std::size_t{16} * 1024};
    std::pmr::unordered_map<ChildKey, Source*, HashChildKey> children_{256, &memory_};
};

/// As a user of `torch.compile` reads it: `L['self'].layers[0]`, `G['scale']`.
std::string print(const Source& source);

/// The same without labels: equal in all traces.
std::string path(const Source& source);
/// `(L['i'] + 1) % 4 == 0`.
std::string print(const Expression& expression);

/// The text of `print`, in pieces allocated in `arena`, the same one for all sources of a trace. Reuses existing
/// pieces.
const PathText* path_text(Source& source, Arena& arena);
std::string print(const PathText& text);
/// As an identifier, which names the placeholder: `L_self_layers_0_`.
std::string identifier(const PathText& text);
/// Appends to such an identifier.
void append_identifier(std::string& name, std::string_view piece);

}  // namespace stator

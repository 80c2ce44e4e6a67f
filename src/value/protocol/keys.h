/// Keys of dicts and elements of sets with a user-defined `__hash__` or `__eq__`. Tables can't run user code, so it is
/// traced before the lookup: afterwards the key's hash is known, and a key that equals one in the table is replaced by
/// that one.
#pragma once

#include "value/builtins/builtin.h"
#include "value/tracer.h"

namespace stator {

/// Whether user code has to run before a table can look up the key.
bool needs_preparation(Tracer& tracer, Value* key);
/// Runs that code and returns the key to look up in `container`, a dict or a set. The hash is then known until the
/// lookup is done; the next use of the key calls `__hash__` again.
Outcome prepare_key(Tracer& tracer, Value* container, Value* key);
/// Forgets the hash of a key, and of the objects in it, at the end of its scope.
class ForgottenHash {
  public:
    explicit ForgottenHash(Value* key) : key_(key) {}
    ~ForgottenHash();
    ForgottenHash(const ForgottenHash&) = delete;
    ForgottenHash& operator=(const ForgottenHash&) = delete;

  private:
    Value* key_;
};

/// Whether the hash of a key in a table came from user code, which must not be called again when the key is put into a
/// real dict or set.
bool has_own_hash(const Value* key);

/// Breaks if the hash of a key is user-defined: for C code that hashes keys one by one while it iterates.
void refuse_own_hash(Tracer& tracer, Value* key);

/// Whether a value has a user-defined `__index__`.
bool has_own_index(Tracer& tracer, Value* value);
/// Calls the user-defined `__index__`; returns an int.
Outcome index_by_method(Tracer& tracer, Value* value);

/// Whether user code has to run before a builtin can take its arguments: for the key of a method of a dict or set, or
/// for numbers passed to a builtin that takes only numbers.
bool needs_settling(Tracer& tracer, Borrowed<> callable, const Arguments& arguments);
/// Runs that code, then the handler.
Outcome call_settled(Tracer& tracer, Handler handler, const Arguments& arguments);

}  // namespace stator

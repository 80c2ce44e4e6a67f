/// Keys of dicts and elements of sets whose `__hash__` and `__eq__` are the program's own. Tables can't run the
/// program's code, so it is run before: afterwards the table knows the key's hash, and a key equal to one that it holds
/// has become that one.
#pragma once

#include "value/builtins/builtin.h"
#include "value/tracer.h"

namespace stator {

/// Whether the program's own code has to run before a table can look for the key.
bool needs_preparation(Tracer& tracer, Value* key);
/// Runs it. Gives the key to look for in `container`, a dict or a set. Its hash is known from then on, and has to be
/// forgotten once the key was looked for: the next use of the key asks the program again.
Outcome prepare_key(Tracer& tracer, Value* container, Value* key);
/// Forgets what the program's code gave as the hash of a key, and of the objects in it, at its end.
class ForgottenHash {
  public:
    explicit ForgottenHash(Value* key) : key_(key) {}
    ~ForgottenHash();
    ForgottenHash(const ForgottenHash&) = delete;
    ForgottenHash& operator=(const ForgottenHash&) = delete;

  private:
    Value* key_;
};

/// Whether the hash of a key that is in a table came from the program's own code: to put it into a real dict or set
/// must not ask again.
bool has_own_hash(const Value* key);

/// Breaks if the program's own code says what the hash of a key is: for C code that hashes keys one after the other
/// while it takes them from somewhere.
void refuse_own_hash(Tracer& tracer, Value* key);

/// Whether a value is an int to the program by a `__index__` of its own.
bool has_own_index(Tracer& tracer, Value* value);
/// Calls the program's `__index__`; gives an int.
Outcome index_by_method(Tracer& tracer, Value* value);

/// Whether the program's own code has to run before a builtin can take its arguments: for the key in a call of a method
/// of a dict or set, or for numbers given to a builtin that takes nothing else.
bool needs_settling(Tracer& tracer, Borrowed<> callable, const Arguments& arguments);
/// Runs it, then the handler.
Outcome call_settled(Tracer& tracer, Handler handler, const Arguments& arguments);

}  // namespace stator

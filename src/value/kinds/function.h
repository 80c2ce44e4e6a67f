/// Python functions, bound methods and cells.
#pragma once

#include <vector>

#include "value/kinds/object.h"

namespace stator {

/// A variable shared by closures.
struct CellValue final : Value {
    static constexpr Kind kKind = Kind::Cell;
    CellValue() : Value(kKind) {}

    Value* contents = nullptr;            // null while empty, and for an outside cell that was not read yet
    PyObject* outside = nullptr;          // the real cell, if it came from outside
    bool read = true;                     // false for an outside cell that was not read yet
    PyObject* name = nullptr;             // of the variable, for messages; may be null
    PyCodeObject* variable_of = nullptr;  // the function that has the variable, if the trace has called it
    bool is_parameter = false;            // of that function

    /// Whether no code assigns to the variable again, so that deferred graphs may read it.
    bool is_settled() const;
    /// Its contents; null if it is empty. Guards either result.
    Value* get(Tracer& tracer);
    void set(Tracer& tracer, Value* value);

    PyTypeObject* type() const override { return &PyCell_Type; }
    PyObject* object() const override { return outside; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// From outside, or made by MAKE_FUNCTION. Both are inlined the same way.
struct FunctionValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Function;
    explicit FunctionValue(PyCodeObject* code) : ObjectValue(kKind, &PyFunction_Type), code(code) {}

    PyCodeObject* code;
    PyObject* globals = nullptr;
    PyObject* builtins = nullptr;
    // Of a function made in the trace; those of an outside function are read when a call needs them.
    std::vector<Value*> defaults;
    std::vector<Keyword> keyword_defaults;
    Value* annotations = nullptr;
    std::vector<CellValue*> closure;
    /// `__name__`, `__qualname__`, `__doc__` and `__module__` where the program has set them.
    Value* set_name = nullptr;
    Value* set_qualname = nullptr;
    Value* set_doc = nullptr;
    Value* set_module = nullptr;
    /// While it is being rebuilt: cells to be filled after the function is made.
    std::vector<CellValue*> pending_cells;

    std::size_t default_count() const;
    Value* default_at(Tracer& tracer, std::size_t index);
    /// Null if the parameter has none.
    Value* keyword_default(Tracer& tracer, Borrowed<> name);
    CellValue* closure_cell(Tracer& tracer, std::size_t index);
    /// `__annotations__` of a function made in the trace, from what MAKE_FUNCTION got.
    DictValue* annotations_dict(Tracer& tracer);

    void realize(Tracer& tracer) override;
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    bool set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    Outcome call(Tracer& tracer, const Arguments& arguments) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// A callable bound to its first argument: a Python method, or a method of a builtin class (then `function` is a
/// BuiltinValue of the descriptor).
struct MethodValue final : Value {
    static constexpr Kind kKind = Kind::Method;
    MethodValue(Value* function, Value* self) : Value(kKind), function(function), self(self) {}

    Value* function;
    Value* self;
    PyObject* outside = nullptr;

    void realize(Tracer& tracer) override;
    PyTypeObject* type() const override;
    PyObject* object() const override { return outside; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome call(Tracer& tracer, const Arguments& arguments) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// Whether a function of the program is marked with `torch.compiler.disable`.
bool is_disabled(PyObject* function);

}  // namespace stator

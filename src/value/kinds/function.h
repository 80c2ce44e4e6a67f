/// Python functions, bound methods and cells.
#pragma once

#include <vector>

#include "value/kinds/object.h"

namespace stator {

/// A closure variable.
struct CellValue final : Value {
    static constexpr Kind kKind = Kind::Cell;
    CellValue() : Value(kKind) {}

    Value* contents = nullptr;            // null while empty, and for an outside cell that was not read yet
    PyObject* outside = nullptr;          // the real cell, if it came from outside
    bool read = true;                     // false for an outside cell that was not read yet
    PyObject* name = nullptr;             // of the variable, for messages; may be null
    PyCodeObject* variable_of = nullptr;  // the function whose variable it is, if the trace has called that function
    bool is_parameter = false;            // a parameter of that function

    /// Whether no code assigns to the variable again, so that later readers see the same value.
    bool is_settled() const;
    /// The contents; null if the cell is empty. Guards either case.
    Value* get(Tracer& tracer);
    void set(Tracer& tracer, Value* value);

    PyTypeObject* type() const override { return &PyCell_Type; }
    PyObject* object() const override { return outside; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// A function from outside or created by MAKE_FUNCTION. Both are inlined the same way.
struct FunctionValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Function;
    explicit FunctionValue(PyCodeObject* code) : ObjectValue(kKind, &PyFunction_Type), code(code) {}

    PyCodeObject* code;
    bool is_entered = false;  // the trace has begun a frame of it
    PyObject* globals = nullptr;
    PyObject* builtins = nullptr;
    // For a function created in the trace. Those of an outside function are read when a call needs them.
    std::vector<Value*> defaults;
    std::vector<Keyword> keyword_defaults;
    Value* annotations = nullptr;
    std::vector<CellValue*> closure;
    /// `__name__`, `__qualname__`, `__doc__` and `__module__` where the program has set them.
    Value* set_name = nullptr;
    Value* set_qualname = nullptr;
    Value* set_doc = nullptr;
    Value* set_module = nullptr;
    /// While the function is being rebuilt: cells to fill once it exists.
    std::vector<CellValue*> pending_cells;

    std::size_t default_count() const;
    Value* default_at(Tracer& tracer, std::size_t index);
    /// Null if the parameter has no default.
    Value* keyword_default(Tracer& tracer, Borrowed<> name);
    CellValue* closure_cell(Tracer& tracer, std::size_t index);
    /// `__annotations__` of a function created in the trace, from the operand of MAKE_FUNCTION.
    DictValue* annotations_dict(Tracer& tracer);

    void realize(Tracer& tracer) override;
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    bool set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    /// `function.__code__ = value` for a function created in the trace.
    void replace_code(Tracer& tracer, Value* value);
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

/// Whether a function is marked with `torch.compiler.disable`.
bool is_disabled(PyObject* function);

/// Raises AssertionError out of the capture if the program has marked a function or class with
/// `torch._dynamo.forbid_in_graph`. The marks that PyTorch has on its own functions count for the stance alone: other
/// functions, such as `mark_dynamic`, do as they do uncompiled. Throws PythonError.
void refuse_forbidden(Tracer& tracer, PyObject* callable, PyObject* attributes);
/// Whether an error of a trace is of that sort.
bool is_misused_mark(Borrowed<> exception);

}  // namespace stator

#include "shape/fallback.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "shape/fake_call.h"
#include "shape/result_reader.h"
#include "shape/unrecorded_writes.h"
#include "torch/arrays.h"
#include "torch/dtypes.h"
#include "torch/fake.h"
#include "torch/global_state.h"
#include "torch/jagged.h"
#include "torch/names.h"
#include "torch/tensor.h"
#include "torch/warnings.h"
#include "torch/wrappers.h"

namespace stator::shape {

namespace {

using graph::Argument;
using graph::Result;
using torch_room::TensorMeta;

bool is_real_or_fake(PyObject* tensor, bool fake) {
    return fake ? torch_room::consists_of_fakes(tensor) : torch_room::is_plain_tensor(tensor);
}

/// Of a tensor that consists of FakeTensors.
bool is_wrapper(PyObject* tensor) {
    return !torch_room::is_fake(tensor) && !torch_room::is_plain_tensor(tensor);
}

void add_prototype(TensorMeta& meta, PyObject* wrapper, std::vector<Ref<>>& kept) {
    kept.push_back(torch_room::make_prototype({Ref<>::share(wrapper)}));
    meta.prototype = kept.back().get();
}

/// The storages that writes to the tensor change. (Jagged tensors share their offsets.)
std::vector<const void*> written_storages_of(PyObject* tensor) {
    if (!torch_room::is_jagged(tensor)) return torch_room::storages_of(tensor);
    return torch_room::storages_of(checked(PyObject_GetAttrString(tensor, "_values")));
}

/// Whether two lists of storages have one in common.
bool shares_one(const std::vector<const void*>& left, const std::vector<const void*>& right) {
    return std::ranges::any_of(left, [&](const void* one) { return std::ranges::find(right, one) != right.end(); });
}

/// Reads the result of a call on these tensors, which are all fake or all real.
class Reader : public ResultReader {
  public:
    Reader(Store& store, const std::vector<Ref<>>& tensors, bool fake, std::vector<Ref<>>& kept)
        : store_(store), tensors_(tensors), fake_(fake), kept_(kept) {}

  private:
    Result read_constant(PyObject* object) override {
        if (!is_constant(object)) throw GaveUp{Status::Unsupported, "a result of type " + type_name(Py_TYPE(object))};
        Result result;
        result.kind = Result::Kind::Constant;
        result.constant = object;
        kept_.push_back(Ref<>::share(object));
        return result;
    }

    static bool is_constant(PyObject* object) {
        return torch_room::is_size(object) || PyBool_Check(object) || PyLong_CheckExact(object) ||
               PyFloat_CheckExact(object) || PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) ||
               torch_room::as_dtype(object) || torch_room::as_device(object) || torch_room::as_layout(object) ||
               torch_room::as_memory_format(object);
    }

    Result read_tensor(PyObject* object, int& base) override {
        if (!is_real_or_fake(object, fake_))
            throw GaveUp{Status::Unsupported, "a result of type " + type_name(Py_TYPE(object))};
        TensorMeta meta = fake_ ? torch_room::read_fake_meta(object) : torch_room::read_meta(object);
        if (is_wrapper(object))
            add_prototype(meta, object, kept_);
        else if (meta.layout != torch_room::Layout{})
            throw GaveUp{Status::Unsupported, "a result that is not strided"};
        Result result;
        result.kind = Result::Kind::Tensor;
        result.tensor = store_.intern(meta);
        const std::vector<const void*> storages = written_storages_of(object);
        for (std::size_t i = 0; i < tensors_.size(); ++i) {
            PyObject* tensor = tensors_[i].get();
            if (tensor == object) {
                result.same_as_argument = static_cast<int>(i);
                base = -1;
                break;
            }
            if (base < 0 && shares_one(written_storages_of(tensor), storages)) base = static_cast<int>(i);
        }
        return result;
    }

    Store& store_;
    const std::vector<Ref<>>& tensors_;
    bool fake_;
    std::vector<Ref<>>& kept_;
};

/// Exceptions of FakeTensor that mean "unknown" and not "invalid".
Borrowed<> fake_exception(const char* name) {
    return imported("torch._subclasses.fake_tensor", name);
}

bool is_exception(PyObject* exception, Borrowed<> type) {
    return PyErr_GivenExceptionMatches(exception, type);
}

std::string message_of(PyObject* exception) {
    Ref<> text = Ref<>::steal(PyObject_Str(exception));
    if (!text) {
        PyErr_Clear();
        return type_name(Py_TYPE(exception));
    }
    std::string message(utf8(text.get()));
    if (auto line_end = message.find('\n'); line_end != std::string::npos) message.resize(line_end);
    return message;
}

std::string name_of(const Question& question) {
    if (question.kind == graph::NodeKind::Method) return std::string(utf8(question.target));
    Ref<> name = Ref<>::steal(PyObject_GetAttrString(question.target, "__name__"));
    if (name && PyUnicode_Check(name.get())) return std::string(utf8(name.get()));
    PyErr_Clear();
    return "";
}

/// The size of a storage is not part of metadata, nor is the number of repetitions: the rejection may be caused by the
/// FakeTensors.
bool depends_on_more(const Question& question) {
    std::string name = name_of(question);
    return name == "as_strided" || name == "as_strided_" || name == "repeat_interleave";
}

/// Whether the rejection in a trial may be caused by its memory, which is as small as possible, or by its tensors,
/// which are views.
bool refuses_more(const Question& question) {
    const std::string name = name_of(question);
    return name.find("as_strided") != std::string::npos || name == "detach_";
}

/// Classifies the current exception: rethrows a rejection by PyTorch, gives up on the rest.
[[noreturn]] void classify_error(const Question& question) {
    TakenError error = TakenError::take();
    static PyObject* const data_dependent[] = {fake_exception("DataDependentOutputException").get(),
                                               fake_exception("DynamicOutputShapeException").get()};
    static PyObject* const unsupported[] = {fake_exception("UnsupportedOperatorException").get(),
                                            fake_exception("UnsupportedFakeTensorException").get(),
                                            fake_exception("UnsupportedMutationAliasingException").get(),
                                            fake_exception("MetadataMismatchError").get(),
                                            PyExc_NotImplementedError,
                                            PyExc_AssertionError,
                                            PyExc_RecursionError,
                                            PyExc_MemoryError};
    PyObject* exception = error.exception();
    for (PyObject* type : data_dependent)
        if (is_exception(exception, type))
            throw GaveUp{Status::DataDependent, "the result depends on the data of a tensor"};
    for (PyObject* type : unsupported)
        if (is_exception(exception, type)) throw GaveUp{Status::Unsupported, message_of(exception)};
    if (depends_on_more(question) || refuses_more(question)) throw GaveUp{Status::Unsupported, message_of(exception)};
    std::move(error).restore();
    throw PythonError();
}

/// Whether it is a user-defined function or object that was allowed in the graph: it may have any side effect.
bool is_of_the_program(const Question& question) {
    if (question.kind != graph::NodeKind::Function || PyCFunction_Check(question.target.get())) return false;
    PyObject* holder = PyFunction_Check(question.target.get())
                           ? question.target.get()
                           : reinterpret_cast<PyObject*>(Py_TYPE(question.target.get()));
    Ref<> module = Ref<>::steal(PyObject_GetAttrString(holder, "__module__"));
    PyErr_Clear();
    if (!module || !PyUnicode_Check(module.get())) return true;
    std::string_view name = utf8(module.get());
    return name != "torch" && !name.starts_with("torch.") && name != "builtins" && name != "_operator" &&
           name != "stator.wrappers";
}

/// `torch.ops.aten.add` or one of its overloads.
bool is_aten(Borrowed<> target) {
    static PyTypeObject* const packet = imported_class("torch._ops", "OpOverloadPacket");
    static PyTypeObject* const overload = imported_class("torch._ops", "OpOverload");
    if (Py_TYPE(target.get()) != packet && Py_TYPE(target.get()) != overload) return false;
    Ref<> name = checked(PyObject_Str(target));
    return utf8(name.get()).starts_with("aten.");
}

/// Whether it is a PyTorch operation without side effects, so that it can be run once more.
bool may_be_tried(const Question& question, const Answer& answer) {
    static const std::unordered_set<std::string_view> homes = {
        "torch",
        "torch._C._nn",
        "torch._C._linalg",
        "torch._C._fft",
        "torch._C._special",
        "torch.functional",
        "torch.nn.functional",
        "_operator",
    };
    if (answer.result.kind == Result::Kind::Constant || depends_on_more(question)) return false;
    if (question.kind == graph::NodeKind::Method) return !answer.side_effect;
    if (!PyCFunction_Check(question.target.get()) && !PyFunction_Check(question.target.get()))
        return !answer.side_effect && is_aten(question.target);
    Ref<> module = Ref<>::steal(PyObject_GetAttrString(question.target, "__module__"));
    PyErr_Clear();
    if (!module || !PyUnicode_Check(module.get())) return false;
    // Operations that raise for singular matrices call a helper whose only side effect is to raise.
    if (answer.side_effect && utf8(module.get()) != "torch._C._linalg") return false;
    return homes.contains(utf8(module.get()));
}

/// The layout that the kernel chose, with the autograd metadata of FakeTensor.
const TensorMeta* as_the_kernel_has_it(Store& store, const TensorMeta& inferred, const TensorMeta& real) {
    if (inferred.sizes != real.sizes)
        throw GaveUp{Status::Unsupported, "FakeTensor and the kernel disagree about the size of the result"};
    TensorMeta meta = inferred;
    meta.strides = real.strides;
    meta.storage_offset = real.storage_offset;
    meta.dtype = real.dtype;
    constexpr std::uint64_t kViews = torch_room::trait::kConjugate | torch_room::trait::kNegative;
    meta.dispatch_keys = (inferred.dispatch_keys & ~kViews) | (real.dispatch_keys & kViews);
    return store.intern(meta);
}

void adopt(Store& store, Result& inferred, const Result& real) {
    // A kernel may omit a result that FakeTensor has, such as attention weights that were not requested.
    bool is_left_out =
        real.kind == Result::Kind::None || (real.kind == Result::Kind::Constant && real.constant == Py_None);
    if (inferred.kind == Result::Kind::Tensor && is_left_out) {
        inferred = real;
        return;
    }
    if (inferred.kind != real.kind || inferred.items.size() != real.items.size())
        throw GaveUp{Status::Unsupported, "FakeTensor and the kernel disagree about the kind of the result"};
    for (std::size_t i = 0; i < inferred.items.size(); ++i) adopt(store, inferred.items[i], real.items[i]);
    if (inferred.kind != Result::Kind::Tensor) return;
    inferred.tensor = as_the_kernel_has_it(store, *inferred.tensor, *real.tensor);
    inferred.same_as_argument = real.same_as_argument;
}

/// Arguments whose metadata the operation changed, as in the run on real tensors.
void adopt_changes(Store& store, Answer& answer, const FakeCall& call, const std::vector<Ref<>>& reals) {
    std::vector<MetadataChange> changes;
    for (std::size_t i = 0; i < reals.size(); ++i) {
        const TensorMeta* inferred = &call.meta(i);
        for (const MetadataChange& change : answer.changed_metadata)
            if (change.argument == static_cast<int>(i)) inferred = change.meta;
        const TensorMeta* now = as_the_kernel_has_it(store, *inferred, torch_room::read_meta(reals[i].get()));
        if (*now != call.meta(i)) changes.push_back({static_cast<int>(i), now});
    }
    answer.changed_metadata = std::move(changes);
}

/// Runs the operation once on real tensors: gives up if it rejects them, and corrects the answer if FakeTensor was
/// wrong.
void try_for_real(Store& store, Borrowed<> mode, const Question& question, Answer& answer) {
    FakeCall call(mode, question);  // a new one: the operation may have changed the tensors of the first
    Ref<> outcome;
    {
        torch_room::KeepRandomState keep_random_state;
        outcome = call.attempt(question);
        if (!answer.random && !answer.side_effect && cannot_seed(question)) keep_random_state.leave();
    }
    if (PyUnicode_Check(outcome.get())) {
        if (answer.side_effect || refuses_more(question)) return;  // because of the data, or the size of the memory
        throw GaveUp{Status::Unsupported, std::string(utf8(outcome.get()))};
    }
    // A wrapped number has less weight in type promotion than the real tensor in its place.
    if (!PyTuple_Check(outcome.get()) || call.has_wrapped_number()) return;
    PyObject* tensors = PyTuple_GET_ITEM(outcome.get(), 1);
    std::vector<Ref<>> reals;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tensors); ++i)
        reals.push_back(Ref<>::share(PyList_GET_ITEM(tensors, i)));
    Answer tried;
    std::vector<Ref<>> kept;
    tried.result = Reader(store, reals, false, kept).read_returned(PyTuple_GET_ITEM(outcome.get(), 0), tried);
    adopt(store, answer.result, tried.result);
    answer.view_of = tried.view_of;
    answer.views_of = std::move(tried.views_of);
    adopt_changes(store, answer, call, reals);
    PyObject* written = PyTuple_GET_ITEM(outcome.get(), 2);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(written); ++i) {
        int index = static_cast<int>(PyLong_AsLong(PyList_GET_ITEM(written, i)));
        if (std::ranges::find(answer.written, index) == answer.written.end()) answer.written.push_back(index);
    }
}

bool is_same_but_prototype(TensorMeta one, const TensorMeta& other) {
    one.prototype = other.prototype;
    return one == other;
}

Answer ask(Store& store, const Question& question, std::vector<Ref<>>& kept) {
    Answer answer;
    Ref<> returned;
    Borrowed<> mode = torch_room::fake_mode_of_thread();
    std::unique_ptr<FakeCall> call;
    try {
        call = std::make_unique<FakeCall>(mode, question);
    } catch (const PythonError&) {
        TakenError error = TakenError::take();
        throw GaveUp{Status::Unsupported, message_of(error.exception())};
    }
    answer.side_effect = is_of_the_program(question);
    torch_room::WithoutWarnings without_warnings;
    torch_room::OperationEffects effects;
    try {
        returned = call->run(question, &effects);
    } catch (const PythonError&) {
        classify_error(question);
    }
    answer.random = effects.random;
    // numpy's functions do nothing but raise and write to arguments, and a trial has shown to which.
    answer.side_effect = (answer.side_effect || effects.side_effect) && !torch_room::calls_numpy(question.target);
    for (const void* storage : effects.written)
        for (std::size_t i = 0; i < call->fakes().size(); ++i) {
            int index = static_cast<int>(i);
            if (shares_one(torch_room::storages_of(call->fakes()[i].get()), {storage}) &&
                std::find(answer.written.begin(), answer.written.end(), index) == answer.written.end())
                answer.written.push_back(index);
        }
    note_unrecorded_writes(question, answer);
    answer.result = Reader(store, call->fakes(), true, kept).read_returned(returned.get(), answer);
    if (answer.result.kind == Result::Kind::Constant && !asks_for_metadata(question))
        throw GaveUp{Status::Unsupported, "a result of type " + type_name(Py_TYPE(returned.get()))};
    for (std::size_t i = 0; i < call->fakes().size(); ++i) {
        PyObject* const argument = call->fakes()[i].get();
        TensorMeta now = torch_room::read_fake_meta(argument);
        // (A prototype stays what it is as long as the metadata of the tensor does.)
        if (is_wrapper(argument) && is_same_but_prototype(now, call->meta(i))) continue;
        if (is_wrapper(argument)) add_prototype(now, argument, kept);
        if (now != call->meta(i)) answer.changed_metadata.push_back({static_cast<int>(i), store.intern(now)});
    }
    if (!call->has_wrapper() && may_be_tried(question, answer)) try_for_real(store, mode, question, answer);
    return answer;
}

}  // namespace

bool asks_for_metadata(const Question& question) {
    static const std::unordered_set<std::string> known = {"is_contiguous",
                                                          "is_same_size",
                                                          "is_floating_point",
                                                          "is_complex",
                                                          "is_signed",
                                                          "is_conj",
                                                          "is_neg",
                                                          "is_inference",
                                                          "is_non_overlapping_and_dense",
                                                          "numel",
                                                          "nelement",
                                                          "dim",
                                                          "ndimension",
                                                          "size",
                                                          "stride",
                                                          "element_size",
                                                          "storage_offset",
                                                          "get_device",
                                                          "__len__",
                                                          "is_distributed",
                                                          "_is_zerotensor",
                                                          "has_names",
                                                          "result_type",
                                                          "can_cast",
                                                          "promote_types",
                                                          "broadcast_shapes",
                                                          "_infer_size",
                                                          "dense_dim",
                                                          "sparse_dim",
                                                          "dim_order",
                                                          "__dlpack_device__"};
    return known.contains(name_of(question));
}

Answer infer_with_fake_tensors(Store& store, const Question& question, std::vector<Ref<>>& kept) {
    try {
        return ask(store, question, kept);
    } catch (GaveUp& gave_up) {
        Answer answer;
        answer.status = gave_up.status;
        answer.reason = std::move(gave_up.reason);
        return answer;
    }
}

}  // namespace stator::shape

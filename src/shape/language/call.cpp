#include "shape/language/call.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "base/python_error.h"
#include "base/text.h"
#include "shape/language/strides.h"
#include "shape/tensors.h"
#include "torch/dtypes.h"

namespace stator::shape {

using torch_room::can_have_grad;
namespace trait = torch_room::trait;

Signature::Signature(std::string_view text) {
    bool keyword_only = false;
    while (!text.empty()) {
        std::size_t end = std::min(text.find(' '), text.size());
        std::string word(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (word == "*") {
            keyword_only = true;
            continue;
        }
        Parameter parameter;
        parameter.keyword_only = keyword_only;
        if (word.ends_with('?')) {
            parameter.optional = true;
            word.pop_back();
        }
        if (word.ends_with("...")) {
            parameter.variadic = true;
            word.resize(word.size() - 3);
        }
        PyObject* name = PyUnicode_InternFromString(word.c_str());
        if (name == nullptr) throw PythonError();
        parameter.name = name;
        parameters_.push_back(parameter);
    }
    STATOR_CHECK(parameters_.size() <= kMost, "a signature with too many parameters");
}

int Signature::find(PyObject* name, bool is_builtin) const {
    for (std::size_t i = 0; i < parameters_.size(); ++i)
        if (parameters_[i].name == name) return static_cast<int>(i);
    // A keyword that is not interned, or PyTorch's other name for the first parameter.
    std::string_view text = utf8(name);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
        if (utf8(parameters_[i].name) == text) return static_cast<int>(i);
    if (text == "input" && !parameters_.empty() && utf8(parameters_[0].name) == "self") return 0;
    // NumPy's names, which PyTorch accepts in functions that are not written in Python.
    if (!is_builtin) return -1;
    std::string_view own = text == "axis" ? "dim" : text == "keepdims" ? "keepdim" : text == "x2" ? "other" : "";
    for (std::size_t i = 0; i < parameters_.size() && !own.empty(); ++i)
        if (utf8(parameters_[i].name) == own) return static_cast<int>(i);
    return -1;
}

bool Signature::bind(const Question& question, std::array<Operand, kMost>& slots) const {
    std::size_t next = 0;
    for (std::size_t i = 0; i < question.arguments.size(); ++i, ++next) {
        if (next >= parameters_.size() || parameters_[next].keyword_only) return false;
        const Parameter& parameter = parameters_[next];
        Operand operand(question.arguments[i]);
        if (parameter.variadic && !operand.is_sequence()) {
            // `x.view(2, 3)`, but `x.view(torch.int32)` and `x.permute(*dims)` of one dimension too.
            std::size_t rest = question.arguments.size() - i;
            slots[next] = rest == 1 && !operand.integer() ? operand : Operand(&question.arguments[i], rest);
            break;
        }
        slots[next] = operand;
    }
    bool is_builtin = question.kind == graph::NodeKind::Method || PyCFunction_Check(question.target.get());
    for (const auto& keyword : question.keywords) {
        int slot = find(keyword.name, is_builtin);
        if (slot < 0 || slots[static_cast<std::size_t>(slot)].is_given()) return false;
        slots[static_cast<std::size_t>(slot)] = Operand(keyword.value);
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i)
        if (!parameters_[i].optional && !slots[i].is_given()) return false;
    return true;
}

bool Call::records(std::initializer_list<const TensorMeta*> inputs) const {
    if (!state_.grad) return false;
    for (const TensorMeta* input : inputs)
        if (input != nullptr && input->requires_grad) return true;
    return false;
}

bool Call::records(const std::vector<const TensorMeta*>& inputs) const {
    if (!state_.grad) return false;
    for (const TensorMeta* input : inputs)
        if (input != nullptr && input->requires_grad) return true;
    return false;
}

TensorMeta Call::fresh(Dims sizes, Dtype dtype, Device device) const {
    Dims strides = contiguous_strides(sizes);
    return fresh(std::move(sizes), std::move(strides), dtype, device);
}

TensorMeta Call::fresh(Dims sizes, Dims strides, Dtype dtype, Device device) const {
    TensorMeta meta;
    meta.sizes = std::move(sizes);
    meta.strides = std::move(strides);
    meta.dtype = dtype;
    meta.device = device;
    meta.dispatch_keys = state_.inference ? trait::kInference : 0;
    meta.python_class = torch_room::tensor_class();
    return meta;
}

TensorMeta Call::view_of(const TensorMeta& base, Dims sizes, Dims strides, Dim storage_offset) const {
    TensorMeta meta;
    meta.sizes = std::move(sizes);
    meta.strides = std::move(strides);
    meta.storage_offset = storage_offset;
    meta.dtype = base.dtype;
    meta.device = base.device;
    meta.dispatch_keys = base.dispatch_keys;
    meta.python_class = torch_room::tensor_class();
    // A view requires grad if its base does, even if autograd does not record it.
    meta.requires_grad = base.requires_grad && can_have_grad(base.dtype);
    meta.is_leaf = !(meta.requires_grad && state_.grad);
    return meta;
}

graph::Result Call::tensor_result(TensorMeta meta) {
    graph::Result result;
    result.kind = graph::Result::Kind::Tensor;
    result.tensor = store_.intern(meta);
    return result;
}

bool Call::returns(TensorMeta meta, bool recorded) {
    meta.requires_grad = recorded && can_have_grad(meta.dtype);
    meta.is_leaf = !meta.requires_grad;
    answer_.result = tensor_result(std::move(meta));
    return true;
}

bool Call::returns_leaf(TensorMeta meta) {
    answer_.result = tensor_result(std::move(meta));
    return true;
}

bool Call::returns_view(const Operand& base, TensorMeta meta) {
    answer_.result = tensor_result(std::move(meta));
    answer_.view_of = index_of(base);
    return true;
}

bool Call::returns_views(const Operand& base, std::vector<TensorMeta> views, bool as_list) {
    answer_.result.kind = as_list ? graph::Result::Kind::List : graph::Result::Kind::Tuple;
    for (TensorMeta& view : views) answer_.result.items.push_back(tensor_result(std::move(view)));
    if (!views.empty()) answer_.view_of = index_of(base);
    return true;
}

bool Call::returns_views(const std::vector<Operand>& bases, std::vector<std::optional<TensorMeta>> views,
                         bool as_list) {
    answer_.result.kind = as_list ? graph::Result::Kind::List : graph::Result::Kind::Tuple;
    std::vector<int> indices;
    for (std::size_t i = 0; i < views.size(); ++i) {
        if (views[i]) {
            answer_.result.items.push_back(tensor_result(std::move(*views[i])));
            indices.push_back(index_of(bases[i]));
        } else {
            answer_.result.items.push_back(tensor_result(*bases[i].tensor()));
            answer_.result.items.back().same_as_argument = index_of(bases[i]);
            indices.push_back(-1);
        }
    }
    if (std::adjacent_find(indices.begin(), indices.end(), std::not_equal_to<>()) != indices.end())
        answer_.views_of = std::move(indices);
    else if (!indices.empty())
        answer_.view_of = indices.front();
    return true;
}

bool Call::returns_several(std::vector<TensorMeta> metas, std::vector<bool> recorded, PyTypeObject* type,
                           bool as_list) {
    answer_.result.kind = as_list ? graph::Result::Kind::List : graph::Result::Kind::Tuple;
    answer_.result.type = type;
    for (std::size_t i = 0; i < metas.size(); ++i) {
        TensorMeta& meta = metas[i];
        meta.requires_grad = recorded[i] && can_have_grad(meta.dtype);
        meta.is_leaf = !meta.requires_grad;
        answer_.result.items.push_back(tensor_result(std::move(meta)));
    }
    return true;
}

bool Call::returns_same(const Operand& argument) {
    answer_.result = tensor_result(*argument.tensor());
    answer_.result.same_as_argument = index_of(argument);
    return true;
}

bool Call::returns_constant(Ref<> constant) {
    answer_.result.kind = graph::Result::Kind::Constant;
    answer_.result.constant = constant.get();
    kept_.push_back(std::move(constant));
    return true;
}

bool Call::note_write(const Operand& self, bool recorded, const TensorMeta*& after) {
    const TensorMeta& before = *self.tensor();
    if (may_overlap_itself(before)) return false;
    if (state_.grad && before.requires_grad && before.is_leaf) return false;
    // In inference mode a write to a normal tensor is not recorded; a view of a parameter may reject it.
    if (state_.inference && before.dispatch_keys == 0 && before.requires_grad) return false;
    int index = index_of(self);
    answer_.written.push_back(index);
    TensorMeta meta = before;
    if (recorded && can_have_grad(before.dtype) && !before.requires_grad) {
        meta.requires_grad = true;
        meta.is_leaf = false;
        after = store_.intern(meta);
        answer_.changed_metadata.push_back({index, after});
    } else {
        after = store_.intern(before);
    }
    return true;
}

bool Call::returns_written(const Operand& self, bool recorded) {
    const TensorMeta* after = nullptr;
    if (!note_write(self, recorded, after)) return false;
    answer_.result.kind = graph::Result::Kind::Tensor;
    answer_.result.tensor = after;
    answer_.result.same_as_argument = index_of(self);
    return true;
}

bool Call::writes(const Operand& self, bool recorded) {
    const TensorMeta* after = nullptr;
    return note_write(self, recorded, after);
}

bool Call::turns_into_write() {
    const TensorMeta *self = slots_[0].tensor(), *computed = answer_.result.tensor;
    if (answer_.status != Status::Ok || answer_.result.kind != graph::Result::Kind::Tensor || self == nullptr ||
        answer_.result.same_as_argument >= 0 || answer_.is_view() || answer_.mutates())
        return false;
    if (computed->sizes != self->sizes || computed->device != self->device || computed->dtype != self->dtype)
        return false;
    answer_.result = {};
    return returns_written(slots_[0], computed->requires_grad);
}

bool Call::turns_into_reshaping() {
    const TensorMeta *self = slots_[0].tensor(), *view = answer_.result.tensor;
    int index = index_of(slots_[0]);
    if (answer_.status != Status::Ok || answer_.result.kind != graph::Result::Kind::Tensor || self == nullptr ||
        answer_.view_of != index || answer_.mutates())
        return false;
    answer_.result = {};
    answer_.view_of = -1;
    if (!returns_written(slots_[0], false)) return false;
    TensorMeta after = *self;
    after.sizes = view->sizes;
    after.strides = view->strides;
    after.storage_offset = view->storage_offset;
    if (after == *self) return true;
    answer_.result.tensor = store_.intern(after);
    answer_.changed_metadata.push_back({index, answer_.result.tensor});
    return true;
}

bool Call::depends_on_contents() {
    answer_ = Answer();
    answer_.status = Status::DataDependent;
    answer_.reason = "the result depends on the data of a tensor";
    return true;
}

bool Call::captures_data_sizes() const {
    return question_.data_sizes != nullptr && question_.data_sizes->are_captured;
}

Dim Call::data_size(Dim most, std::int64_t least) {
    Expressions& numbers = question_.data_sizes->numbers;
    Dim size = unbacked_size(numbers, {least, most.is_constant() ? most.value() : Range::kNoMost});
    if (!most.is_constant())
        numbers.learn(*numbers.condition(Expression::Op::LessEqual, size.in(numbers), most.in(numbers)));
    return size;
}

Dim Call::count_of(const Operand& tensor) {
    DataSizes& sizes = *question_.data_sizes;
    ++sizes.uses;
    auto found = sizes.counts.find(tensor.node());
    if (found == sizes.counts.end())
        found = sizes.counts.emplace(tensor.node(), data_size(element_count(tensor.tensor()->sizes))).first;
    return found->second;
}

int Call::index_of(const Operand& operand) const {
    return TensorArguments(question_).index_of(operand.node());
}

}  // namespace stator::shape

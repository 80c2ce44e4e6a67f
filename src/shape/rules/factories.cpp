/// New tensors: of given sizes, like another tensor, ranges, and from Python numbers.
#include <cmath>

#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;
using torch_room::MemoryFormat;

/// The kind of values, packed into the variant.
enum Contents : int { kPlain = 0, kRandomFloat = 1, kRandomNormal = 2 };

struct Options {
    Dtype dtype;
    Device device;
    bool requires_grad = false;
};

/// `dtype`, `device` and `requires_grad` in slots from `first` on; layout and pinning are left to the fallback.
std::optional<Options> read_options(const Call& call, std::size_t first, Dtype dtype, Device device) {
    // A default device replaces a missing one.
    if (call.state().has_function_modes) return std::nullopt;
    Options options{dtype, device};
    if (!call[first].is_absent()) {
        auto requested = call[first].dtype();
        if (!requested || !torch_room::is_ordinary(*requested)) return std::nullopt;
        options.dtype = *requested;
    }
    if (!call[first + 1].is_absent()) {
        auto requested = call[first + 1].device();
        if (!requested || call[first + 1].device()->kind != torch_room::DeviceKind{}) {
            if (!requested || *requested != device) return std::nullopt;
        }
        options.device = *requested;
        // `cpu` and `cpu:0` are the same device, and tensors report the former.
        if (options.device.kind == torch_room::DeviceKind{}) options.device.index = -1;
    }
    auto requires_grad = call[first + 2].boolean_or(false);
    if (!requires_grad) return std::nullopt;
    if (*requires_grad && !torch_room::can_have_grad(options.dtype)) return std::nullopt;
    options.requires_grad = *requires_grad;
    return options;
}

bool give(Call& call, TensorMeta meta, const Options& options) {
    if (options.requires_grad && call.state().inference) return false;
    meta.requires_grad = options.requires_grad;
    return call.returns_leaf(std::move(meta));
}

bool all_positive(const Dims& sizes) {
    for (Dim size : sizes)
        if (!require_less_equal(0, size)) return false;
    return true;
}

/// `zeros(*size, dtype, device, requires_grad)`.
bool of_size(Call& call) {
    auto sizes = call[0].integer_or_integers();
    auto options = read_options(call, 1, call.state().default_dtype, {});
    if (!sizes || !all_positive(*sizes) || !options) return false;
    if (call.variant() != kPlain) {
        if (torch_room::is_integral(options->dtype)) return false;
        call.answer().random = true;
    }
    return give(call, call.fresh(*sizes, options->dtype, options->device), *options);
}

std::optional<Dtype> type_of_number(const Call& call, const Operand& number) {
    auto type = number.number_type();
    if (!type) return std::nullopt;
    if (torch_room::is_complex(*type)) return torch_room::to_complex(call.state().default_dtype);
    return torch_room::is_floating(*type) ? call.state().default_dtype : *type;
}

bool full(Call& call) {
    auto sizes = call[0].integer_or_integers();
    auto natural = type_of_number(call, call[1]);
    if (!sizes || !call[0].is_sequence() || !all_positive(*sizes) || !natural) return false;
    auto options = read_options(call, 2, *natural, {});
    if (!options) return false;
    return give(call, call.fresh(*sizes, options->dtype, options->device), *options);
}

bool like(Call& call, std::size_t first_option) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    auto options = read_options(call, first_option, self->dtype, self->device);
    if (!options) return false;
    const Operand& format_operand = call[first_option + 3];
    auto format = format_operand.is_absent() ? std::optional(MemoryFormat::Preserve) : format_operand.memory_format();
    if (!format) return false;
    bool last = *format == MemoryFormat::ChannelsLast || *format == MemoryFormat::ChannelsLast3d;
    if (last && self->dimensions() != (*format == MemoryFormat::ChannelsLast ? 4u : 5u)) return false;
    Dims strides = *format == MemoryFormat::Preserve ? preserved_strides(*self)
                   : last                            ? channels_last_strides(self->sizes)
                                                     : contiguous_strides(self->sizes);
    if (call.variant() != kPlain) {
        if (torch_room::is_integral(options->dtype)) return false;
        call.answer().random = true;
    }
    return give(call, call.fresh(self->sizes, std::move(strides), options->dtype, options->device), *options);
}

/// `zeros_like(x, dtype, device, requires_grad, memory_format)`.
bool like_tensor(Call& call) {
    return like(call, 1);
}

bool full_like(Call& call) {
    return call[1].number_type().has_value() && like(call, 2);
}

/// `x.new_zeros(*size, dtype, device, requires_grad)`.
bool new_of_size(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto sizes = call[1].integer_or_integers();
    if (self == nullptr || !sizes || !all_positive(*sizes)) return false;
    auto options = read_options(call, 2, self->dtype, self->device);
    return options && give(call, call.fresh(*sizes, options->dtype, options->device), *options);
}

bool new_full(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto sizes = call[1].integers();
    if (self == nullptr || !sizes || !all_positive(*sizes) || !call[2].number_type()) return false;
    auto options = read_options(call, 3, self->dtype, self->device);
    return options && give(call, call.fresh(*sizes, options->dtype, options->device), *options);
}

/// The length of a range of ints; empty where PyTorch rejects it.
std::optional<Dim> range_length(Dim first, Dim last, Dim increment) {
    if (increment == 0) return std::nullopt;
    const bool descends = increment < 0;
    if (descends ? first < last : !require_less_equal(first, last)) return std::nullopt;
    const Dim distance = descends ? first - last : last - first, step = descends ? Dim(0) - increment : increment;
    return (distance + step - 1) / step;
}

/// `arange(end)`, `arange(start, end)`, `arange(start, end, step)`.
bool arange(Call& call) {
    const Operand none;
    bool one = !call[1].is_given();
    const Operand &start = one ? none : call[0], &end = one ? call[0] : call[1], &step = call[2];
    auto first_int = start.integer_or(0), last_int = end.integer_or(0), increment_int = step.integer_or(1);
    if (first_int && last_int && increment_int && end.is_given() && !(one && step.is_given())) {
        auto options = read_options(call, 3, kLong, {});
        auto length = range_length(*first_int, *last_int, *increment_int);
        if (!options || !length || options->dtype == kBool || torch_room::is_complex(options->dtype)) return false;
        return give(call, call.fresh({*length}, options->dtype, options->device), *options);
    }
    Dtype natural = kLong;
    double values[3] = {0, 0, 1};
    const Operand* operands[3] = {&start, &end, &step};
    for (std::size_t i = 0; i < 3; ++i) {
        if (!operands[i]->is_given()) continue;
        auto value = operands[i]->real();
        if (auto truth = operands[i]->boolean()) value = *truth ? 1.0 : 0.0;
        if (!value || !std::isfinite(*value)) return false;
        values[i] = *value;
        if (!operands[i]->integer() && !operands[i]->boolean()) natural = call.state().default_dtype;
    }
    if (one && step.is_given()) return false;
    double &first = values[0], &last = values[1], &increment = values[2];
    if (increment == 0 || (increment > 0 ? first > last : first < last)) return false;
    // Beyond this doubles are no longer exact integers.
    if (std::abs(first) > 1e15 || std::abs(last) > 1e15) return false;
    auto options = read_options(call, 3, natural, {});
    if (!options || options->dtype == kBool || torch_room::is_complex(options->dtype)) return false;
    // `int64` is computed in integers, where other bounds are truncated first; smaller types are computed in doubles.
    if (options->dtype == kLong && natural != kLong) {
        for (double* value : {&first, &last, &increment}) *value = std::trunc(*value);
        if (increment == 0 || (increment > 0 ? first > last : first < last)) return false;
    }
    auto length = static_cast<std::int64_t>(std::ceil((last - first) / increment));
    return give(call, call.fresh({Dim(length)}, options->dtype, options->device), *options);
}

/// A real number, or a tensor with one.
bool is_end(const Operand& operand) {
    if (const TensorMeta* tensor = operand.tensor())
        return tensor->sizes.empty() && !torch_room::is_complex(tensor->dtype) && is_on_cpu(*tensor);
    return operand.real().has_value();
}

/// `linspace(start, end, steps)`, and `logspace(start, end, steps, base)`.
bool linspace(Call& call) {
    auto steps = call[2].integer();
    if (!is_end(call[0]) || !is_end(call[1]) || !steps || !require_less_equal(0, *steps)) return false;
    bool has_base = call.variant() != 0;
    if (has_base && call[3].is_given() && !call[3].real()) return false;
    auto options = read_options(call, has_base ? 4 : 3, call.state().default_dtype, {});
    if (!options) return false;
    return give(call, call.fresh({*steps}, options->dtype, options->device), *options);
}

bool are_bounds(const Operand& low, const Operand& high) {
    auto first = low.is_given() ? low.integer() : std::optional(Dim(0)), last = high.integer();
    return first && last && *first < *last;
}

/// `randint(high, size)` and `randint(low, high, size)`.
bool random_integers(Call& call) {
    bool one_bound = call[1].is_sequence() && !call[2].is_given();
    const Operand none;
    auto sizes = one_bound ? call[1].integers() : call[2].integers();
    if (!sizes || !all_positive(*sizes) || !are_bounds(one_bound ? none : call[0], one_bound ? call[0] : call[1]))
        return false;
    auto options = read_options(call, 3, kLong, {});
    if (!options || (options->dtype != kLong && options->dtype != kInt && options->dtype != kFloat)) return false;
    call.answer().random = true;
    return give(call, call.fresh(*sizes, options->dtype, options->device), *options);
}

/// `randint_like(x, high)` and `randint_like(x, low, high)`.
bool random_integers_like(Call& call) {
    const Operand none;
    bool one_bound = !call[2].is_given();
    if (!are_bounds(one_bound ? none : call[1], one_bound ? call[1] : call[2])) return false;
    auto type =
        call[3].is_absent() && call[0].tensor() != nullptr ? std::optional(call[0].tensor()->dtype) : call[3].dtype();
    if (type != kLong && type != kInt && type != kFloat) return false;
    if (!like(call, 3)) return false;
    call.answer().random = true;
    return true;
}

bool random_permutation(Call& call) {
    auto count = call[0].integer();
    auto options = read_options(call, 1, kLong, {});
    if (!count || *count < 0 || !options || options->dtype != kLong) return false;
    call.answer().random = true;
    return give(call, call.fresh({*count}, options->dtype, options->device), *options);
}

bool eye(Call& call) {
    auto rows = call[0].integer();
    auto columns = call[1].is_given() ? call[1].integer() : rows;
    auto options = read_options(call, 2, call.state().default_dtype, {});
    if (!rows || !columns || *rows < 0 || *columns < 0 || !options) return false;
    return give(call, call.fresh({*rows, *columns}, options->dtype, options->device), *options);
}

/// Sizes and type of nested lists of numbers; false if they are ragged or contain anything else.
bool read_nested(const Call& call, const Operand& data, std::size_t depth, Dims& sizes, std::optional<Dtype>& type) {
    if (auto number = type_of_number(call, data)) {
        if (depth != sizes.size()) return false;
        type = type ? torch_room::promote(*type, *number) : *number;
        return true;
    }
    if (!data.is_sequence()) return false;
    std::vector<Operand> items = data.items();
    Dim length(static_cast<std::int64_t>(items.size()));
    if (depth == sizes.size()) {
        // The first element of each level decides the depth.
        if (type) return false;
        sizes.push_back(length);
    } else if (sizes[depth] != length) {
        return false;
    }
    for (const Operand& item : items)
        if (!read_nested(call, item, depth + 1, sizes, type)) return false;
    return true;
}

bool tensor(Call& call) {
    Dims sizes;
    std::optional<Dtype> natural;
    if (!read_nested(call, call[0], 0, sizes, natural)) return false;
    if (!natural) {
        // Without a number, it has the default type.
        if (!is_known_empty(sizes)) return false;
        natural = call.state().default_dtype;
    }
    auto options = read_options(call, 1, *natural, {});
    return options && give(call, call.fresh(std::move(sizes), options->dtype, options->device), *options);
}

/// `x.new_tensor(data)`.
bool new_tensor(Call& call) {
    const TensorMeta* self = call[0].tensor();
    Dims sizes;
    std::optional<Dtype> natural;
    if (self == nullptr || !read_nested(call, call[1], 0, sizes, natural) || !natural) return false;
    if (torch_room::is_complex(*natural) && !torch_room::is_complex(self->dtype)) return false;
    auto options = read_options(call, 2, self->dtype, self->device);
    return options && give(call, call.fresh(std::move(sizes), options->dtype, options->device), *options);
}

}  // namespace

void add_factory_rules(Registry& registry) {
    registry.add_neutral("torch.zeros torch.ones torch.empty", "size... * dtype? device? requires_grad?", of_size);
    registry.add_neutral("torch.rand", "size... * dtype? device? requires_grad?", of_size, kRandomFloat);
    registry.add_neutral("torch.randn", "size... * dtype? device? requires_grad?", of_size, kRandomNormal);
    registry.add_neutral("torch.full", "size fill_value * dtype? device? requires_grad?", full);
    registry.add_neutral("torch.zeros_like torch.ones_like torch.empty_like",
                         "self * dtype? device? requires_grad? memory_format?", like_tensor);
    registry.add_neutral("torch.rand_like", "self * dtype? device? requires_grad? memory_format?", like_tensor,
                         kRandomFloat);
    registry.add_neutral("torch.randn_like", "self * dtype? device? requires_grad? memory_format?", like_tensor,
                         kRandomNormal);
    registry.add_neutral("torch.full_like", "self fill_value * dtype? device? requires_grad? memory_format?",
                         full_like);
    registry.add_neutral("Tensor.new_zeros Tensor.new_ones Tensor.new_empty",
                         "self size... * dtype? device? requires_grad?", new_of_size);
    registry.add_neutral("Tensor.new_full", "self size fill_value * dtype? device? requires_grad?", new_full);
    registry.add_neutral("torch.arange", "start end? step? * dtype? device? requires_grad?", arange);
    registry.add_neutral("torch.linspace", "start end steps * dtype? device? requires_grad?", linspace);
    registry.add_neutral("torch.logspace", "start end steps base? * dtype? device? requires_grad?", linspace, 1);
    registry.add_neutral("torch.randint_like", "self low high? * dtype? device? requires_grad? memory_format?",
                         random_integers_like);
    registry.add_neutral("torch.randint", "low high size? * dtype? device? requires_grad?", random_integers);
    registry.add_neutral("torch.randperm", "n * dtype? device? requires_grad?", random_permutation);
    registry.add_neutral("torch.eye", "n m? * dtype? device? requires_grad?", eye);
    registry.add_neutral("Tensor.new_tensor", "self data * dtype? device? requires_grad?", new_tensor);
    registry.add_neutral("torch.as_tensor", "data dtype? device?", tensor);
    registry.add_neutral("torch.tensor", "data * dtype? device? requires_grad?", tensor);
}

}  // namespace stator::shape

#include "torch/calls/recordable.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "torch/recordings/device_recording.h"

namespace stator::torch_room {

namespace {

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
}

/// These wait for the device, or take the size of their result from its data, without a tag that says so.
constexpr std::array<std::string_view, 33> kReadsData = {"item",
                                                         "_local_scalar_dense",
                                                         "is_nonzero",
                                                         "nonzero",
                                                         "nonzero_numpy",
                                                         "argwhere",
                                                         "masked_select",
                                                         "unique_dim",
                                                         "_unique",
                                                         "_unique2",
                                                         "bincount",
                                                         "histc",
                                                         "histogram",
                                                         "equal",
                                                         "allclose",
                                                         "multinomial",
                                                         "repeat_interleave",
                                                         "one_hot",
                                                         "tensor_split",
                                                         "inverse",
                                                         "cholesky",
                                                         "cholesky_inverse",
                                                         "cholesky_solve",
                                                         "lu_solve",
                                                         "logdet",
                                                         "slogdet",
                                                         "det",
                                                         "pinverse",
                                                         "matrix_power",
                                                         "_pack_padded_sequence",
                                                         "nuclear_norm",
                                                         "unique_consecutive",
                                                         "_pad_packed_sequence"};

/// These read or change the storage itself: a copy of the tensor has another one.
constexpr std::array<std::string_view, 8> kUsesStorage = {
    "as_strided", "as_strided_", "as_strided_scatter", "set_", "resize_", "resize_as_", "set_data", "record_stream"};

bool has_mask(const c10::IValue& value) {
    if (!value.isOptionalTensorList() && !value.isTensorList()) return false;
    auto is_mask = [](const at::Tensor& tensor) {
        return tensor.defined() && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
    };
    if (value.isTensorList()) return std::ranges::any_of(value.toTensorVector(), is_mask);
    return std::ranges::any_of(value.toOptionalTensorVector(),
                               [&](const std::optional<at::Tensor>& tensor) { return tensor && is_mask(*tensor); });
}

/// A tag that not every version of PyTorch has.
template <class Tag>
bool is_marked_unsafe(const c10::OperatorHandle& operation) {
    if constexpr (requires { Tag::cudagraph_unsafe; }) return operation.hasTag(Tag::cudagraph_unsafe);
    return false;
}

const char* why_not(const c10::OperatorHandle& operation, std::span<const c10::IValue> inputs, bool is_inner) {
    std::string_view name = operation.schema().name();
    constexpr std::string_view kPrefix = "aten::";
    if (!name.starts_with(kPrefix)) return "it is an operator of a library";
    name.remove_prefix(kPrefix.size());
    if (operation.hasTag(at::Tag::data_dependent_output) || operation.hasTag(at::Tag::dynamic_output_shape))
        return "its result depends on data";
    if (is_marked_unsafe<at::Tag>(operation)) return "PyTorch marks it as unsafe in CUDA graphs";
    const bool is_where_of_one = name == "where" && inputs.size() == 1;
    if (is_one_of(name, kReadsData) || name.starts_with("linalg_") || name.starts_with("_linalg_") || is_where_of_one)
        return "it waits for the device";
    if (name.starts_with("index") && std::ranges::any_of(inputs, has_mask)) return "it indexes with a mask";
    if (is_inner) return nullptr;
    if (operation.hasTag(at::Tag::inplace_view)) return "it changes the sizes of a tensor in place";
    if (is_one_of(name, kUsesStorage)) return "it uses the storage of a tensor";
    return nullptr;
}

class Devices {
  public:
    explicit Devices(Recordability* found) : found_(*found) {}

    void add(const c10::IValue& value) {
        if (value.isTensor()) {
            add(value.toTensor());
        } else if (value.isTensorList()) {
            for (const at::Tensor& tensor : value.toTensorVector()) add(tensor);
        } else if (value.isOptionalTensorList()) {
            for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
                if (tensor) add(*tensor);
        }
    }

  private:
    void add(const at::Tensor& tensor) {
        // A number that the binding has wrapped is a constant of the kernel.
        if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
        if (!has_recorder(static_cast<std::int8_t>(tensor.device().type())))
            found_.reason =
                tensor.is_cpu() ? "it has a tensor on the CPU" : "it has a tensor on another kind of device";
        else if (found_.device && *found_.device != tensor.device())
            found_.reason = "it has tensors on several devices";
        else
            found_.device = tensor.device();
    }

    Recordability& found_;
};

}  // namespace

Recordability recordability(const c10::OperatorHandle& operation, std::span<const c10::IValue> inputs,
                            std::span<const c10::IValue> outputs, bool is_inner) {
    Recordability found;
    Devices devices(&found);
    for (const c10::IValue& value : inputs) devices.add(value);
    for (const c10::IValue& value : outputs) devices.add(value);
    if (found.reason != nullptr) return found;
    if (const char* reason = why_not(operation, inputs, is_inner)) found.reason = reason;
    return found;
}

std::vector<bool> written_arguments(const c10::FunctionSchema& schema) {
    std::vector<bool> written;
    const bool is_norm =
        schema.name().find("batch_norm") != std::string::npos || schema.name() == "aten::instance_norm";
    for (const c10::Argument& argument : schema.arguments()) {
        const bool is_annotated = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
        // Schemas of normalizations don't say that training updates the running statistics.
        const bool is_statistic = is_norm && argument.name().starts_with("running_");
        written.push_back(is_annotated || is_statistic);
    }
    return written;
}

}  // namespace stator::torch_room

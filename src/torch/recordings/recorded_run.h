/// The run of a row of calls during a recording: which memory holds its results, and how they are related to each other
/// and to the inputs. Only for files of this room.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "torch/recordings/device_recording.h"

namespace stator::torch_room {

/// A tensor that the calls made with memory of its own, and that is used, itself or through views, after the row.
struct Root {
    std::uint32_t value;
    c10::Storage storage;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset;
    c10::DispatchKeySet keys;
    caffe2::TypeMeta dtype;
    std::optional<std::uint32_t> version;  // none for an inference tensor

    /// The same tensor on other memory.
    at::Tensor on(c10::Storage storage) const;
};

/// One act by which results are made of the inputs and of the roots.
struct ResultAct {
    enum class Kind : std::uint8_t { Root, View, Same };
    Kind kind;
    std::uint32_t value;       // that it makes: of Root and Same
    std::uint32_t from;        // the number of a root, or the value that it is the same as
    std::uint32_t step, call;  // of a view: the call is made again, it runs no kernel
};

struct RecordedRun {
    std::vector<Root> roots;
    std::vector<ResultAct> acts;             // in their order
    std::vector<std::uint32_t> temporaries;  // made by acts, not used after the row
    std::vector<bool> is_written;            // inputs, by their place in the row
    std::string refusal;                     // why this can't be repeated; empty if it can
};

/// Runs the calls on these inputs, one for each of the row. Throws what operators throw.
RecordedRun run_recorded(const PreparedCalls& calls, const Row& row, const std::vector<at::Tensor>& inputs);

void set_version(const at::Tensor& tensor, std::uint32_t version);
/// All bytes of a storage.
at::Tensor bytes_of(const c10::Storage& storage);

}  // namespace stator::torch_room

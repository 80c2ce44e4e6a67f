"""What each setting of `torch._dynamo.config` means for Stator.

A setting is honoured, has no meaning for Stator, or is warned of when a program sets it. What is in neither table, such
as a setting of a newer torch, is warned of. `python -m stator` and docs/configuration.md show these tables.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from torch.utils._config_module import _UNSET_SENTINEL as _UNSET

from stator import notes, torch_versions

# Read by the engine, by Stator's Python side, or by the parts of torch around it.
HONOURED: dict[str, str] = {
    "accumulated_cache_size_limit": "another name of `accumulated_recompile_limit`",
    "accumulated_recompile_limit": "if it is set: how many entries an instruction may have for all instances together",
    "allow_ignore_mark_dynamic": "specializing a dimension that is marked with `mark_dynamic` is no error",
    "allow_unspec_int_on_nn_module": "ints that differ between instances of a module class become symbols",
    "assume_static_by_default": "if False, sizes and numbers are symbols from the first call",
    "automatic_dynamic_shapes": "what has changed between calls becomes a symbol",
    "cache_size_limit": "another name of `recompile_limit`",
    "caching_precompile": "functions are left to TorchDynamo",
    "cudagraph_backend_keep_input_mutation": "by the backend",
    "cudagraph_backend_support_input_mutation": "by the backend",
    "capture_dynamic_output_shape_ops": "sizes that depend on data are captured",
    "capture_scalar_outputs": "numbers that depend on data are captured",
    "debug_dir_root": "by the backend",
    "disable": "nothing is captured; what was captured runs",
    "enable_aot_compile": "by `aot_compile`, which is left to TorchDynamo",
    "enable_compiler_collectives": "as `stator.config.enable_compiler_collectives`",
    "error_on_nested_fx_trace": "symbolic tracing of a compiled function by FX is an error",
    "error_on_recompile": "a recompile raises `torch._dynamo.exc.RecompileError`",
    "fail_on_cache_limit_hit": "another name of `fail_on_recompile_limit_hit`",
    "fail_on_recompile_limit_hit": "the recompile limit is an error, as with `fullgraph=True`",
    "force_nn_module_property_static_shapes": "tensors of PyTorch's own modules have constant sizes",
    "force_parameter_static_shapes": "parameters and buffers have constant sizes",
    "ignore_logger_methods": "another name of `ignore_logging_functions`",
    "ignore_logging_functions": "calls of these functions are left out",
    "install_free_tensors": "as `stator.config.register_attributes`, under `stator.install()`",
    "install_free_tensors_for_export": "by export, which is left to TorchDynamo",
    "log_compilation_metrics": "under `stator.install()`",
    "only_allow_pt2_compliant_ops": "operators of libraries without the tag `pt2_compliant_tag` break the graph",
    "optimize_ddp": "inside of `DistributedDataParallel` a backend gets one graph for each bucket of gradients; "
    "`False` turns that off",
    "prepare_freezing": "parameters and buffers are attributes of the graph module",
    "raise_on_ctx_manager_usage": "by torch",
    "recompile_limit": "unless `stator.config.recompile_limit` is set",
    "reorderable_logging_functions": "these functions are called after the graph",
    "repro_after": "`dynamo` wraps the backend, `aot` is read by the backend",
    "repro_forward_only": "by the minifier",
    "repro_ignore_non_fp": "by the minifier",
    "repro_level": "by the minifier",
    "repro_tolerance": "by the minifier",
    "same_two_models_use_fp64": "by the minifier",
    "specialize_float": "floats stay constants",
    "specialize_int": "ints stay constants",
    "strict_precompile": "functions are left to TorchDynamo",
    "verify_correctness": "compares with the graph as it was captured, for backends that get real example inputs",
    "suppress_errors": "if the backend fails, the graph runs as it was captured",
    "trace_autograd_ops": "`torch.autograd.grad` and `backward()` are captured",
    "trace_numpy": "if False, numpy arrays break the graph",
}

_GUARDS = "Stator checks all guards, which costs no more"
_ALWAYS = "Stator always does it"
_DYNAMOS = "about TorchDynamo's own implementation"
_TRACES = "Stator captures it, or breaks the graph with a reason"

WITHOUT_MEANING: dict[str, str] = {
    "TYPE_CHECKING": "no setting",
    "_autograd_backward_strict_mode_banned_ops": _DYNAMOS,
    "_autograd_backward_strict_mode_conditional_banned_ops": _DYNAMOS,
    "_custom_ops_profile": "of export",
    "_save_config_ignore": "no setting",
    "_dynamic_shapes_spec": "`dynamic_shapes` of `torch.compile` is refused",
    "_shapes_spec": "`shapes_spec` of `torch.compile` is refused",
    "_unsafe_skip_fsdp_module_guards": _GUARDS,
    "allow_empty_graphs": "a capture without operations needs no backend",
    "allow_rnn": _ALWAYS,
    "allowed_functions_module_string_ignorelist": _DYNAMOS,
    "assume_dunder_attributes_remain_unchanged": _GUARDS,
    "automatic_dynamic_exclusion_guard": _DYNAMOS,
    "automatic_dynamic_local_pgo": "Stator keeps no profile",
    "automatic_dynamic_remote_pgo": "Stator keeps no profile",
    "base_dir": "no setting",
    "capture_autograd_function": _ALWAYS,
    "capture_func_transforms": _TRACES,
    "capture_profiler_record_function": _TRACES,
    "capture_sparse_compute": _TRACES,
    "compiled_autograd_kwargs_override": "of compiled autograd",
    "constant_fold_autograd_profiler_enabled": _DYNAMOS,
    "dead_code_elimination": _ALWAYS,
    "do_not_emit_runtime_asserts": "assertions are part of the program",
    "dont_skip_tracing": "Stator has no list of files to skip",
    "dynamic_shapes": "torch does not read it either",
    "enable_cpp_framelocals_guard_eval": _ALWAYS,
    "enable_cpp_guard_manager": _ALWAYS,
    "enable_cpp_symbolic_shape_guards": _ALWAYS,
    "enable_dynamo_decompositions": _DYNAMOS,
    "enable_faithful_generator_behavior": _ALWAYS,
    "enable_trace_contextlib": _ALWAYS,
    "enable_trace_load_build_class": _TRACES,
    "enable_trace_unittest": _ALWAYS,
    "fake_tensor_cache_crosscheck_enabled": "read by FakeTensor itself",
    "fake_tensor_cache_enabled": "read by FakeTensor itself",
    "fake_tensor_disable_inference_mode": _ALWAYS,
    "force_unspec_int_unbacked_size_like_on_torchrec_kjt": "of torchrec",
    "generate_pycode": "Stator generates no code",
    "graph_break_on_nn_param_ctor": _TRACES,
    "graph_deduplication_lint": _DYNAMOS,
    "guard_nn_modules": _GUARDS,
    "guard_nn_modules_using_dict_tags": _ALWAYS,
    "inject_BUILD_SET_unimplemented_TESTING_ONLY": _DYNAMOS,
    "inline_inbuilt_nn_modules": _ALWAYS,
    "inline_invoke_subgraph": _DYNAMOS,
    "inline_single_use_invoke_subgraph": _DYNAMOS,
    "inline_torch_dispatch_torch_compile": _DYNAMOS,
    "invalidate_compile_context_weakrefs": _DYNAMOS,
    "issue_3_13_0_warning": "Stator has no such problem",
    "log_file_name": "torch does not read it either",
    "max_saved_pointers_for_recursive_dict_tags_check": _DYNAMOS,
    "minimum_call_count": "torch does not read it either",
    "nested_graph_breaks": _ALWAYS,
    "optimize_ddp_lazy_compile": "torch does not read it either",
    "record_compile_time_instruction_count": _DYNAMOS,
    "record_runtime_overhead": _DYNAMOS,
    "report_guard_failures": _ALWAYS,
    "rewrite_assert_with_torch_assert": "an assertion on data breaks the graph, unless such numbers are captured",
    "run_gc_after_compile": "a capture frees its memory itself",
    "skip_code_recursive_on_recompile_limit_hit": "the limit holds for one function",
    "skip_code_recursive_on_cache_limit_hit": "the limit holds for one function",
    "skip_fsdp_guards": _GUARDS,
    "skip_guards_on_constant_func_defaults": _GUARDS,
    "skip_nnmodule_hook_guards": _GUARDS,
    "skip_no_tensor_aliasing_guards_on_parameters": _GUARDS,
    "skip_tensor_guards_with_matching_dict_tags": _GUARDS,
    "skip_torchrec": "of torchrec",
    "skipfiles_inline_module_allowlist": "Stator has no list of files to skip",
    "traceable_tensor_subclasses": _TRACES,
    "track_nodes_for_deduplication": _DYNAMOS,
    "use_graph_deduplication": _DYNAMOS,
    "use_lamba_guard_for_object_aliasing": _DYNAMOS,
    "use_lazy_graph_module": _ALWAYS,
    "use_recursive_dict_tags_for_guards": _DYNAMOS,
    "verbose": "messages always have all that is known",
    "wrap_top_frame": "the frame of the call itself is captured",
}

_warned: set[str] = set()


def warned(names: Any) -> list[str]:
    """Those of the settings that are warned of when they are set."""
    return sorted(name for name in names if name not in HONOURED and name not in WITHOUT_MEANING)


def warn_of_settings() -> None:
    """Warns, once for each, of settings that the program has set and that have no effect."""
    for name, entry in _warned_entries():
        value, default = torch_versions.set_value(entry), entry.default
        if value is _UNSET or name in _warned or value == default:
            continue
        _warned.add(name)
        notes.warn(
            f"torch._dynamo.config.{name} = {value!r} has no effect on what Stator compiles. See docs/configuration.md"
        )


@cache
def _warned_entries() -> list[tuple[str, Any]]:
    """Where torch keeps the settings that are warned of."""
    from torch._dynamo import config

    settings: Any = config
    return [(name, settings._config[name]) for name in warned(settings._config)]

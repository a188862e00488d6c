"""Profile of a module: its torch operations, and the memory alive."""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing import reductions
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_weakly: Any = reductions.StorageWeakRef

_TO_PYTHON = frozenset(
    "__array__ __bool__ __complex__ __dlpack__ __float__ __index__ __int__ data_ptr item numpy "
    "tolist untyped_storage".split()
)
"""Methods that give a tensor's numbers to Python, where no operation shows what becomes of them."""

_TAKE_ANYTHING = frozenset(
    "addmm addmv addbmm addr baddbmm bmm dot linear matmul mm mv einsum bilinear "
    "convolution _convolution conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
    "conv_transpose3d mkldnn_convolution cudnn_convolution thnn_conv2d slow_conv3d "
    "_slow_conv2d_forward conv_depthwise3d _conv_depthwise2d mkldnn_linear mkldnn_rnn_layer "
    "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d _adaptive_avg_pool2d "
    "_adaptive_avg_pool3d max_pool1d max_pool2d max_pool3d max_pool2d_with_indices "
    "max_pool3d_with_indices adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
    "mkldnn_max_pool2d batch_norm native_batch_norm _native_batch_norm_legit_no_training "
    "cudnn_batch_norm miopen_batch_norm _batch_norm_no_update _batch_norm_impl_index "
    "layer_norm native_layer_norm group_norm native_group_norm instance_norm rms_norm "
    "_fused_rms_norm softmax _softmax log_softmax _log_softmax _safe_softmax "
    "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell "
    "_thnn_fused_lstm_cell _thnn_fused_gru_cell _cudnn_rnn _cudnn_rnn_flatten_weight "
    "scaled_dot_product_attention _scaled_dot_product_attention_math "
    "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
    "_scaled_dot_product_fused_attention_overrideable _native_multi_head_attention "
    "_transformer_encoder_layer_fwd sum mean var std var_mean std_mean amax amin max min aminmax "
    "logsumexp norm linalg_vector_norm cumsum prod any all cat stack constant_pad_nd pad "
    "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d roll flip tril triu "
    "_fft_r2c _fft_c2r _fft_c2c upsample_nearest1d upsample_nearest2d upsample_linear1d "
    "upsample_bilinear2d pixel_shuffle pixel_unshuffle repeat clone copy copy_ _to_copy "
    "_trilinear _prelu_kernel prelu "
    "contiguous arange linspace zeros ones full empty eye scalar_tensor empty_strided empty_like "
    "zeros_like ones_like full_like new_zeros new_ones new_full new_empty new_empty_strided "
    "fill_ zero_ lift_fresh lift_fresh_copy _reshape_copy _reshape_alias _pack_padded_sequence "
    "_unsafe_view im2col glu channel_shuffle "
    "native_channel_shuffle unsafe_chunk unsafe_split unsafe_split_with_sizes sort topk argsort "
    "argmax argmin bucketize searchsorted".split()
)
"""Operations beside the elementwise ones that take any number, NaN too: none looks up
something by it, none decomposes a matrix."""

_MAX_POOLS = frozenset(
    "max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices".split()
)


class Profile(TorchDispatchMode):
    """Watches what runs inside a ``with`` block on `given`, as torch itself sees it.

    Attributes
    ----------
    peak : int
        Bytes alive at the worst moment, of all that was made inside. Weights were there before.
    looks : str
        How Python, or the size of a result, came to depend on the numbers; "" if nothing did.
    might_fail : str
        An operation that is not known to take NaN, as an index or in a decomposition; or "".
    writes : bool
        The memory of `given` was written to.
    pools : bool
        The greatest of places was taken, of several channels each.
    recurs : bool
        cuDNN ran a recurrent layer.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """torch would load its compiler, for more than a second, to keep it out of this class."""
        return False

    def __init__(self, given: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self.looks = ""
        self.might_fail = ""
        self.writes = self.pools = self.recurs = False
        self._given = given.untyped_storage().data_ptr()
        self._before = {self._given}
        self._alive: dict[int, tuple[Any, int]] = {}
        self._calls = _Calls(self)

    def __enter__(self) -> Profile:
        self._calls.__enter__()  # type: ignore[no-untyped-call]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._calls.__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        tags = func.tags
        if torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags:
            self.looks = self.looks or f"{name} depends on the numbers"
        if torch.Tag.nondeterministic_seeded in tags and not _is_attention(name):
            self.looks = self.looks or f"{name} draws random numbers"
        a_view = func.is_view or torch.Tag.inplace_view in tags
        if not (torch.Tag.pointwise in tags or a_view or name in _TAKE_ANYTHING):
            self.might_fail = self.might_fail or name
        if func._schema.is_mutable:
            self.writes |= self._writes_to_given(func, args, kwargs)
        self.recurs |= name == "_cudnn_rnn"
        if name in _MAX_POOLS:
            x = args[0]  # (B, channels, *places), or without B
            self.pools |= x.ndim >= 4 and x.shape[1] > 1
        addresses = map(_address, tree_leaves((args, kwargs)))
        self._before |= {a for a in addresses if a not in self._alive}
        found = func(*args, **kwargs)
        self._count(found)
        return found

    def _writes_to_given(self, func: Any, args: tuple, kwargs: dict) -> bool:
        for k, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            x = kwargs.get(argument.name, args[k] if k < len(args) else None)
            if any(_address(t) == self._given for t in tree_leaves(x)):
                return True
        return False

    def _count(self, found: Any) -> None:
        """Notice memory that is new, and what was freed since."""
        for t in tree_leaves(found):
            if not isinstance(t, torch.Tensor) or t.layout is not torch.strided:
                continue
            storage = t.untyped_storage()
            address = storage.data_ptr()
            if address and address not in self._before:
                known = self._alive.get(address)
                if known is None or known[0].expired():
                    self._alive[address] = _weakly(storage), storage.nbytes()
        freed = [a for a, (reference, _) in self._alive.items() if reference.expired()]
        for a in freed:
            del self._alive[a]
        self.peak = max(self.peak, sum(n for _, n in self._alive.values()))


class _Calls(TorchFunctionMode):
    """Sees the methods of tensors that no operation stands for."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _TO_PYTHON:
            self._profile.looks = self._profile.looks or f"{name} gives numbers to Python"
        return func(*args, **(kwargs or {}))


def _is_attention(name: str) -> bool:
    """Attention may draw for its dropout, which is off outside of training."""
    return "attention" in name or name == "_cudnn_rnn"


def _address(t: Any) -> int:
    strided = isinstance(t, torch.Tensor) and t.layout is torch.strided
    return t.untyped_storage().data_ptr() if strided else 0

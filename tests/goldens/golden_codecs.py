"""How each quantised format stores a matrix, as its own tools write it, and what the stored bytes mean.

A codec packs a weight [out, in] into the tensors of its module, and unpacks them
to f32 without the rounding to a smaller type that loading for a GPU adds. Who
computes what:

    Mlx                packs and unpacks with mlx
    Awq (GEMM)         packed here; unpacked by the converter of compressed-tensors
    Awq (GEMV)         packed and unpacked here: its library unpacks on CUDA only
    Gptq               packed here; unpacked by GPTQModel's TorchLinear
    CompressedTensors  packs and unpacks with compressed-tensors
    Mixed              groups of the above, chosen for each module by compressed-tensors
    Reordered          packed words by compressed-tensors; groups looked up here, as
                       the pinned version has given `weight_g_idx` up
    Fp8Block           packed here; unpacked by the converter of compressed-tensors
    Fp8Tensor          packed and unpacked here
    Bnb4, BnbInt8      pack and unpack with bitsandbytes
    Hqq                packs and unpacks with hqq
    TorchaoInt4        packed and unpacked here by the rule of the kernel that torchao calls, which
                       has no CPU build; names, metadata and configuration by torchao
"""

from dataclasses import dataclass

import bitsandbytes.functional as bnb
import mlx.core as mx
import numpy
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
from compressed_tensors.entrypoints.convert.converters import AutoAWQConverter, FP8BlockDequantizer
from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from compressed_tensors.utils.match import match_name, match_targets
from gptqmodel.nn_modules.qlinear.torch import TorchLinear
from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module
from hqq.core.quantize import HQQLinear, Quantizer
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
from torchao.quantization import Int4Tensor, Int4WeightOnlyConfig
from transformers import BitsAndBytesConfig, HqqConfig, TorchAoConfig

ORDER_AWQ = [0, 2, 4, 6, 1, 3, 5, 7]
# Matrices that read the same input: calibration gives them one order of columns.
INPUTS = {"q_proj": 0, "k_proj": 0, "v_proj": 0, "o_proj": 1, "gate_proj": 2, "up_proj": 2, "down_proj": 3}
FP8_MAX = torch.finfo(torch.float8_e4m3fn).max


class Codec:
    """What formats have in common."""

    def covers(self, name):
        """Whether the matrix of the module of this name is quantised."""
        return name.endswith("_proj")

    def config(self):
        """What config.json says of the format."""
        return {"quantization_config": self.quantization_config()}

    def file(self, tensors):
        """The tensors and the metadata of the safetensors file."""
        return tensors, {"format": "pt"}


def affine(weight, group_size, symmetric, bits=4):
    """Rounds groups along the input; returns q [out, in], and zero and f16 scale [out, groups]."""
    top, middle = 2**bits - 1, 2 ** (bits - 1)
    groups = weight.numpy().reshape(weight.shape[0], -1, group_size)
    low, high = numpy.minimum(groups.min(2), 0), numpy.maximum(groups.max(2), 0)
    if symmetric:
        high = numpy.maximum(high, -low)
        low = -high
    scale = ((high - low) / top).astype(numpy.float16)
    zero = numpy.full(scale.shape, middle) if symmetric else numpy.round(-low / scale.astype(numpy.float32)).clip(0, top)
    q = numpy.round(groups / scale.astype(numpy.float32)[..., None]) + zero[..., None]
    return q.clip(0, top).astype(numpy.uint32).reshape(weight.shape), zero.astype(numpy.uint32), scale


def words(codes, bits=4):
    """Packs codes of the last axis into int32s, the first lowest."""
    shifts = numpy.arange(0, 32, bits, dtype=numpy.uint32)
    together = codes.astype(numpy.uint32).reshape(*codes.shape[:-1], -1, 32 // bits)
    packed = numpy.bitwise_or.reduce(together << shifts, axis=-1)
    return torch.from_numpy(packed.view(numpy.int32).copy())


def tensor(array):
    return torch.from_numpy(numpy.ascontiguousarray(array))


@dataclass(frozen=True)
class Mlx(Codec):
    """mlx-lm's `weight`, `scales` and `biases`, also of the embedding and the head."""

    bits: int
    group_size: int
    dtype: mx.Dtype
    exceptions: tuple = ()  # (module, bits), or (module, None): it has no scales, and config.json says nothing

    def covers(self, name):
        outer = name.endswith(("embed_tokens", "lm_head"))
        return (outer or super().covers(name)) and self.bits_of(name) is not None

    def bits_of(self, name):
        return dict(self.exceptions).get(name, self.bits)

    def config(self):
        quantization = {"group_size": self.group_size, "bits": self.bits, "mode": "affine"}
        for name, bits in self.exceptions:
            if bits is not None:
                quantization[name] = {"group_size": self.group_size, "bits": bits, "mode": "affine"}
        return {"quantization": quantization, "quantization_config": quantization}

    def file(self, tensors):
        return tensors, {"format": "mlx"}

    def pack(self, weight, name):
        weight = mx.array(weight.numpy()).astype(self.dtype)
        packed, scales, biases = mx.quantize(weight, self.group_size, self.bits_of(name))
        stored = torch.bfloat16 if self.dtype == mx.bfloat16 else torch.float16
        scales, biases = (tensor(numpy.array(part.astype(mx.float32))).to(stored) for part in (scales, biases))
        return {"weight": tensor(numpy.array(packed)), "scales": scales, "biases": biases}

    def unpack(self, tensors, name):
        packed = mx.array(tensors["weight"].numpy())
        scales, biases = (mx.array(tensors[key].float().numpy()) for key in ("scales", "biases"))
        return tensor(numpy.array(mx.dequantize(packed, scales, biases, self.group_size, self.bits_of(name))))


@dataclass(frozen=True)
class Awq(Codec):
    """AutoAWQ's `gemm`, words along the output in its own order, or `gemv`, words along the input and padded."""

    version: str
    group_size: int

    def quantization_config(self):
        return {
            "bits": 4,
            "group_size": self.group_size,
            "modules_to_not_convert": None,
            "quant_method": "awq",
            "version": self.version,
            "zero_point": True,
        }

    def pack(self, weight, name):
        q, zero, scale = affine(weight, self.group_size, symmetric=False)
        if self.version == "gemv":
            return {"qweight": words(q), "qzeros": words(self.padded(zero)), "scales": tensor(self.padded(scale))}
        q, zero = ((part.T.reshape(part.shape[1], -1, 8)[..., ORDER_AWQ]) for part in (q, zero))
        return {"qweight": words(q)[..., 0], "qzeros": words(zero)[..., 0], "scales": tensor(scale.T)}

    def padded(self, groups):
        """Widens [out, groups] with zeros to whole words of zero points, in steps of 128 / group_size words."""
        step = 8 * max(1, 128 // self.group_size)
        return numpy.pad(groups, ((0, 0), (0, -groups.shape[1] % step)))

    def unpack(self, tensors, name):
        if self.version == "gemm":
            parts = AutoAWQConverter.unpack_awq(tensors["qweight"], tensors["qzeros"], 4)
            q, zero = ((part & 15).T for part in AutoAWQConverter.reverse_awq_order(*parts, 4))
            scale = tensors["scales"].T
        else:
            shifts = torch.arange(0, 32, 4)
            q, zero = ((tensors[key][..., None] >> shifts & 15).flatten(1) for key in ("qweight", "qzeros"))
            groups = q.shape[1] // self.group_size
            scale, zero = tensors["scales"][:, :groups], zero[:, :groups]
        q = q.unflatten(1, (-1, self.group_size))
        return ((q - zero[..., None]) * scale.float()[..., None]).flatten(1)


@dataclass(frozen=True)
class Gptq(Codec):
    """GPTQ in the versions that differ in how zero points are stored."""

    version: int
    symmetric: bool
    group_size: int
    act_order: bool = False
    wraps: bool = False  # some rows get a zero point of 0, which version 1 stores as -1
    biases: bool = False  # every module gets a bias, as from early AutoGPTQ
    bits: int = 4

    def quantization_config(self):
        config = {
            "bits": self.bits,
            "damp_percent": 0.01,
            "desc_act": self.act_order,
            "group_size": self.group_size,
            "quant_method": "gptq",
            "sym": self.symmetric,
            "true_sequential": True,
        }
        if self.biases:  # a writer that knew of one format only
            return config | {"model_file_base_name": "model", "model_name_or_path": None, "static_groups": False}
        format = "gptq" if self.version == 1 else "gptq_v2"
        meta = {"quantizer": ["gptqmodel:7.7.0"], "damp_percent": 0.01, "static_groups": False, "true_sequential": True}
        return config | {"checkpoint_format": format, "lm_head": False, "pack_dtype": "int32", "meta": meta}

    def pack(self, weight, name):
        if self.wraps:
            weight = weight.clone()
            weight[5::8].abs_()
        order = numpy.arange(weight.shape[1])
        if self.act_order:
            module = name.split(".")
            order = numpy.random.default_rng([int(module[2]), INPUTS[module[-1]]]).permutation(order)
        g_idx = numpy.empty(weight.shape[1], numpy.int32)
        g_idx[order] = numpy.arange(weight.shape[1]) // self.group_size
        ordered, zero, scale = affine(weight[:, order], self.group_size, self.symmetric, self.bits)
        q = numpy.empty_like(ordered)
        q[:, order] = ordered
        qzeros = words(zero.T, self.bits)
        if self.version == 1:
            qzeros -= 0x11111111 if self.bits == 4 else 0x01010101
        packed = {"qweight": words(q, self.bits).T.contiguous(), "qzeros": qzeros, "scales": tensor(scale.T)}
        if self.biases:
            packed["bias"] = torch.zeros(weight.shape[0], dtype=torch.float16)
        return packed | {"g_idx": tensor(g_idx)}

    def unpack(self, tensors, name):
        layer = TorchLinear(
            bits=self.bits,
            group_size=self.group_size,
            sym=self.symmetric,
            desc_act=self.act_order,
            in_features=tensors["g_idx"].numel(),
            out_features=tensors["scales"].shape[1],
        ).eval()
        for key in ("qweight", "qzeros", "g_idx"):
            getattr(layer, key).copy_(tensors[key])
        layer.scales = tensors["scales"].float()
        if self.version == 1:
            convert_gptq_v1_to_v2_format_module(layer, self.bits, torch.int32)
        return layer.dequantize_weight().T.contiguous()


@dataclass(frozen=True)
class CompressedTensors(Codec):
    """A format of compressed-tensors, with the scheme that its recipe gives."""

    format: str
    scheme: QuantizationScheme
    dtype: torch.dtype = torch.bfloat16

    def quantization_config(self):
        return QuantizationConfig(
            config_groups={"group_0": self.scheme.model_copy(update={"format": self.format})},
            format=self.format,
            quantization_status="compressed",
            ignore=["lm_head"],
        ).to_dict()

    def pack(self, weight, name):
        args = self.scheme.weights
        if args.strategy == "tensor":
            scale, zero = calculate_qparams(weight.amin(), weight.amax(), args)
        else:
            groups = weight.unflatten(1, (-1, args.group_size or weight.shape[1]))
            scale, zero = calculate_qparams(groups.amin(2), groups.amax(2), args)
        state = {"weight": weight, "weight_scale": scale.to(self.dtype).float(), "weight_zero_point": zero}
        state = self.compressor().compress(state, self.scheme)
        if state["weight_scale"].is_floating_point():
            state["weight_scale"] = state["weight_scale"].to(self.dtype)
        inputs = self.scheme.input_activations
        if inputs and not inputs.dynamic:
            state["input_scale"] = torch.tensor([1 / 64], dtype=self.dtype)
        return state

    def unpack(self, tensors, name):
        state = {key: part.float() if part.dtype == self.dtype else part for key, part in tensors.items()}
        return self.compressor().decompress(state, self.scheme)["weight"].float()

    def compressor(self):
        return BaseCompressor.get_value_from_registry(self.format)


@dataclass(frozen=True)
class Mixed(Codec):
    """Groups of compressed-tensors, each of a format of its own; which modules are whose is decided there."""

    groups: tuple
    ignore: tuple

    def covers(self, name):
        return super().covers(name) and not any(match_name(name, target) for target in self.ignore)

    def quantization_config(self):
        groups = [group.scheme.model_copy(update={"format": group.format}) for group in self.groups]
        return QuantizationConfig(
            config_groups={f"group_{i}": group for i, group in enumerate(groups)},
            format="mixed-precision",
            quantization_status="compressed",
            ignore=list(self.ignore),
        ).to_dict()

    def group(self, name):
        groups = {target: group for group in self.groups for target in group.scheme.targets}
        return groups[match_targets(name, torch.nn.Linear(1, 1, device="meta"), groups)[0]]

    def pack(self, weight, name):
        return self.group(name).pack(weight, name)

    def unpack(self, tensors, name):
        return self.group(name).unpack(tensors, name)


@dataclass(frozen=True)
class Reordered(CompressedTensors):
    """Int4 words of columns in their own order, whose groups `weight_g_idx` names."""

    apart: bool = False  # also the matrices that read the same input have orders of their own

    def quantization_config(self):
        config = super().quantization_config()
        config["config_groups"]["group_0"]["weights"]["actorder"] = "group"
        return config

    def pack(self, weight, name):
        module = name.split(".")
        seed = list(INPUTS).index(module[-1]) if self.apart else INPUTS[module[-1]]
        order = numpy.random.default_rng([int(module[2]), seed]).permutation(weight.shape[1])
        state = super().pack(weight[:, order], name)
        q = unpack_from_int32(state["weight_packed"], 4, weight.shape)
        back = numpy.argsort(order)
        state["weight_packed"] = words((q[:, back] + 8).numpy())
        g_idx = back // self.scheme.weights.group_size
        return state | {"weight_g_idx": tensor(g_idx.astype(numpy.int32))}

    def unpack(self, tensors, name):
        q = unpack_from_int32(tensors["weight_packed"], 4, torch.Size(tensors["weight_shape"]))
        return q * tensors["weight_scale"].float()[:, tensors["weight_g_idx"].long()]


@dataclass(frozen=True)
class Fp8Block(Codec):
    """FP8 with a scale for each square of 128, as DeepSeek (f32) and Qwen3 (bf16) publish it."""

    scale_dtype: torch.dtype

    def quantization_config(self):
        return {
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "quant_method": "fp8",
            "weight_block_size": [128, 128],
        }

    def pack(self, weight, name):
        rows, columns = weight.shape
        scale = torch.empty(-(-rows // 128), -(-columns // 128))
        for row in range(scale.shape[0]):
            for column in range(scale.shape[1]):
                block = weight[row * 128 :, column * 128 :][:128, :128]
                scale[row, column] = block.abs().max() / FP8_MAX
        scale = scale.to(self.scale_dtype)
        spread = scale.float().repeat_interleave(128, 0).repeat_interleave(128, 1)[:rows, :columns]
        q = (weight / spread).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
        return {"weight": q, "weight_scale_inv": scale}

    def unpack(self, tensors, name):
        state = {f"{name}.{key}": part for key, part in tensors.items() if key != "bias"}
        return FP8BlockDequantizer(weight_block_size=(128, 128), dtype=torch.float32).process(state)[f"{name}.weight"]


@dataclass(frozen=True)
class Fp8Tensor(Codec):
    """FP8 with one scale for a matrix and one for its input, as AutoFP8 writes it."""

    def quantization_config(self):
        return {"activation_scheme": "static", "ignored_layers": ["lm_head"], "quant_method": "fp8"}

    def pack(self, weight, name):
        scale = weight.abs().max() / FP8_MAX
        q = (weight / scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
        return {"weight": q, "weight_scale": scale, "input_scale": torch.tensor(1 / 64)}

    def unpack(self, tensors, name):
        return tensors["weight"].float() * tensors["weight_scale"]


@dataclass(frozen=True)
class Bnb4(Codec):
    """NF4 or FP4 of bitsandbytes, with scales that are quantised too if `nested`."""

    kind: str
    nested: bool

    def quantization_config(self):
        return BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type=self.kind,
            bnb_4bit_use_double_quant=self.nested,
            bnb_4bit_compute_dtype=torch.bfloat16,
        ).to_dict()

    def pack(self, weight, name):
        q, state = bnb.quantize_4bit(
            weight.bfloat16(), blocksize=64, quant_type=self.kind, compress_statistics=self.nested
        )
        return {"weight": q} | {f"weight.{key}": part for key, part in state.as_dict(packed=True).items()}

    def unpack(self, tensors, name):
        parts = {key: part for key, part in tensors.items() if key.startswith("weight.")}
        state = bnb.QuantState.from_dict({key.removeprefix("weight."): part for key, part in parts.items()}, "cpu")
        state.dtype = torch.float32
        return bnb.dequantize_4bit(tensors["weight"], state)


@dataclass(frozen=True)
class BnbInt8(Codec):
    """LLM.int8 of bitsandbytes."""

    def quantization_config(self):
        return BitsAndBytesConfig(load_in_8bit=True).to_dict()

    def pack(self, weight, name):
        q, scale, _ = bnb.int8_vectorwise_quant(weight.half())
        return {"weight": q, "SCB": scale.float(), "weight_format": torch.tensor(0, dtype=torch.uint8)}

    def unpack(self, tensors, name):
        return bnb.int8_vectorwise_dequant(tensors["weight"], tensors["SCB"])


@dataclass(frozen=True)
class Hqq(Codec):
    """HQQ as its layers save themselves, one small tensor for each setting."""

    group_size: int
    dtype: torch.dtype

    def quantization_config(self):
        return HqqConfig(nbits=4, group_size=self.group_size, axis=1).to_dict()

    def pack(self, weight, name):
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        linear.weight.data = weight.clone()
        layer = HQQLinear(linear, self.quantization_config()["quant_config"], compute_dtype=self.dtype, device="cpu")
        return {key: part.detach() for key, part in layer.state_dict().items()}

    def unpack(self, tensors, name):
        layer = HQQLinear(None, None, compute_dtype=torch.float32, device="cpu", initialize=False)
        layer.load_state_dict(dict(tensors))
        meta = layer.meta | {"compute_dtype": torch.float32}
        meta |= {key: meta[key].float() for key in ("scale", "zero")}
        return Quantizer.dequantize(layer.W_q, meta)


@dataclass(frozen=True)
class TorchaoInt4(Codec):
    """torchao's Int4Tensor in its plain packing: signed nibbles, the first low, and zero points in units of weights."""

    group_size: int

    def quantization_config(self):
        return TorchAoConfig(Int4WeightOnlyConfig(group_size=self.group_size)).to_dict()

    def pack(self, weight, name):
        groups = weight.unflatten(1, (-1, self.group_size))
        low, high = groups.amin(2, keepdim=True), groups.amax(2, keepdim=True)
        scale = (high - low).clamp(min=1e-6) / 15
        q = (((groups - low) / scale).round().clamp(0, 15) - 8).to(torch.int8).flatten(1)
        return {
            "_weight_qdata": (q[:, ::2] & 15) | (q[:, 1::2] << 4),
            "_weight_scale": scale[..., 0].T.contiguous().bfloat16(),
            "_weight_zero_point": (low + 8 * scale)[..., 0].T.contiguous().bfloat16(),
        }

    def unpack(self, tensors, name):
        packed = tensors["_weight_qdata"]
        q = torch.stack([packed << 4 >> 4, packed >> 4], dim=2).flatten(1).unflatten(1, (-1, self.group_size))
        scale, zero = (tensors[f"_weight_{key}"].float().T[..., None] for key in ("scale", "zero_point"))
        return (q * scale + zero).flatten(1)

    def file(self, tensors):
        weights = {}
        for name, part in tensors.items():
            module = name.removesuffix("._weight_qdata")
            if module != name:
                parts = [tensors[f"{module}._weight_{key}"] for key in Int4Tensor.tensor_data_names]
                shape = [part.shape[0], part.shape[1] * 2]
                weights[f"{module}.weight"] = Int4Tensor(*parts, block_size=[1, self.group_size], shape=shape)
            elif "._weight_" not in name:
                weights[name] = part
        flat, metadata = flatten_tensor_state_dict(weights)
        return flat, metadata | {"format": "pt"}

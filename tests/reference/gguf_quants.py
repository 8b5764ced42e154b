"""Makes gguf_quants.safetensors: blocks of each quantized type of GGUF, and what PyPI's `gguf` decodes them to.

usage: pip install gguf==0.19.0 numpy safetensors; python3 gguf_quants.py [OUT]

Per type two tensors: NAME.blocks, U8 [blocks, bytes], and NAME.values, F32 [blocks, numbers]. Blocks are random bytes,
with scales (and minimums) that go through zero, subnormal, the largest and drawn ones, of both signs; two blocks each
have all codes at their ends.
"""
import pathlib
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

# Where in a block the half-precision scales lie, and where nothing but codes and small scales does.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208]}
SPECIAL = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00], dtype=np.uint16)
random = np.random.default_rng(20)


def half_floats(n):
    drawn = random.standard_normal(n).astype(np.float16).view(np.uint16)
    drawn[: len(SPECIAL)] = SPECIAL
    return drawn


out = {}
for name, places in SCALES.items():
    kind = gguf.GGMLQuantizationType[name]
    numbers, size = gguf.constants.GGML_QUANT_SIZES[kind]
    count = 48 if numbers == 32 else 20
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    blocks[-1], blocks[-2] = 0x00, 0xFF
    for place in places:
        scales = half_floats(count)
        if place != places[0]:  # every special minimum beside another special scale
            scales[: len(SPECIAL)] = np.roll(SPECIAL, 3)
        blocks[:, place : place + 2] = scales.view(np.uint8).reshape(count, 2)
    values = gguf.quants.dequantize(blocks, kind)
    assert values.dtype == np.float32 and values.shape == (count, numbers) and np.isfinite(values).all()
    out[name + ".blocks"], out[name + ".values"] = blocks, np.ascontiguousarray(values)

for name in ("F16", "BF16"):
    bits = random.integers(0, 1 << 16, 512, dtype=np.uint16)
    bits[: len(SPECIAL)] = SPECIAL
    exponent = 0x7C00 if name == "F16" else 0x7F80
    bits = bits[(bits & exponent) != exponent][:256].reshape(1, 256)  # no infinities: the reader refuses them
    stored = bits.view(np.float16) if name == "F16" else bits.view(np.uint8)
    values = gguf.quants.dequantize(stored, gguf.GGMLQuantizationType[name])
    out[name + ".blocks"], out[name + ".values"] = bits.view(np.uint8), np.ascontiguousarray(values)

path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("gguf_quants.safetensors"))
save_file(out, path)
print(path, path.stat().st_size, "bytes; gguf", __import__("importlib.metadata", fromlist=["version"]).version("gguf"))

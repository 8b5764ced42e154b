"""Prints the constants of tests/unit/io_dequantize_test.cpp and io_weights_test.cpp, read by PyPI's `gguf`.

usage: pip install gguf; python3 gguf_constants.py SmolLM2-135M-Instruct.Q4_1.gguf
"""
import sys

import gguf
import numpy as np

reader = gguf.GGUFReader(sys.argv[1])
tensors = {t.name: t for t in reader.tensors}


def numbers(name):
    return np.ascontiguousarray(gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type))


def checksum(values):
    """Every bit of every value, and its place: sum of bits * (2 i + 1) modulo 2^64."""
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64).ravel()
    return hex(int((bits * (np.arange(bits.size, dtype=np.uint64) * np.uint64(2) + np.uint64(1))).sum(dtype=np.uint64)))


def half_split(values, heads):
    """From neighbours that are rotated together to pairs (i, i + head_dim / 2)."""
    rows, columns = values.shape
    return values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


embedding, down, gain = numbers("token_embd.weight"), numbers("blk.29.ffn_down.weight"), numbers("output_norm.weight")
print("tensors", len(tensors))
print("embedding rms", np.sqrt((embedding.astype(np.float64) ** 2).mean()))
print("gain", gain.astype(np.float64).mean(), gain.min(), gain.max())
for i, j in ((0, 0), (0, 31), (28, 100), (49151, 575)):
    print("embedding", i, j, float(embedding[i, j]).hex())
for i, j in ((0, 0), (0, 32), (100, 777), (575, 1535)):
    print("down 29", i, j, float(down[i, j]).hex())
for name in ("token_embd.weight", "blk.29.ffn_down.weight", "blk.0.attn_k.weight", "output_norm.weight"):
    print(name, checksum(numbers(name)))
print("k 0 half split", checksum(half_split(numbers("blk.0.attn_k.weight"), 3)))
q = half_split(numbers("blk.3.attn_q.weight"), 9)
for i, j in ((0, 0), (1, 0), (31, 0), (32, 0), (33, 575), (64, 0)):
    print("q 3 half split", i, j, float(q[i, j]).hex())

drawn = np.random.default_rng(7).standard_normal(64).astype(np.float32)[:32]
for kind in (gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q8_0):
    block = gguf.quants.quantize(drawn, kind)
    values = gguf.quants.dequantize(block, kind)
    print(kind.name, bytes(block).hex(), [float(v).hex() for v in values[[0, 1, 15, 16, 17, 31]]])

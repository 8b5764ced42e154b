"""Prints the constants of tests/unit/io_rotary_scaling_test.cpp: Llama 3's rotary frequencies, in double, by wavelength.

usage: pip install numpy; python3 rotary_frequencies.py

A wave that fits at least `high` times into the original context keeps its frequency, one that fits less than `low`
times has it divided by the factor, and between the two the two frequencies are mixed in proportion.
"""
import numpy as np


def frequencies(head_dim, theta, factor, low, high, original):
    plain = theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    wavelength = 2 * np.pi / plain
    mix = (original / wavelength - low) / (high - low)
    between = (1 - mix) * plain / factor + mix * plain
    return plain, np.where(wavelength < original / high, plain,
                           np.where(wavelength > original / low, plain / factor, between))


for name, *model in (("3.1", 128, 5e5, 8.0, 1.0, 4.0, 8192), ("3.2", 64, 5e5, 32.0, 1.0, 4.0, 8192),
                     ("tiny", 4, 100.0, 8.0, 1.0, 4.0, 100)):
    plain, scaled = frequencies(*model)
    divisors = (plain / scaled).astype(np.float32)
    print(name, "sum", repr(float(scaled.sum())), "kept", int((scaled == plain).sum()),
          "divided", int((divisors == np.float32(model[2])).sum()), "of", len(plain))
    for i in range(0, len(plain), max(1, len(plain) // 16)):
        print("   ", i, repr(float(plain[i])), repr(float(scaled[i])), "divisor", repr(float(divisors[i])))

"""Compares two folders of fixtures: the committed ones and some that were made afresh.

usage: python compare_fixtures.py COMMITTED FRESH

What is drawn (weights, tokens) must be equal to the bit, what is computed in double within a norm-wise 1e-12 in what one
forward and backward gives and 1e-11 after twelve updates: PyTorch sums in another order on another processor. Prints the
largest difference and ends with 1 where there is one too many.
"""
import json
import pathlib
import sys

import numpy as np
from safetensors import safe_open


def tensors(path):
    with safe_open(path, "np") as f:
        return {name: f.get_tensor(name) for name in f.keys()}, f.metadata()


def main():
    committed, fresh = map(pathlib.Path, sys.argv[1:3])
    paths = sorted(p.relative_to(committed) for p in committed.rglob("*") if p.is_file())
    faults = []
    if paths != sorted(p.relative_to(fresh) for p in fresh.rglob("*") if p.is_file()):
        faults.append("the folders hold different files")
        paths = [p for p in paths if (fresh / p).is_file()]
    worst, where, count = 0.0, "", 0
    for path in paths:
        if path.suffix == ".json":
            if json.loads((committed / path).read_text()) != json.loads((fresh / path).read_text()):
                faults.append(f"{path} differs")
            continue
        if path.name == "model.safetensors":  # bfloat16 among them, which numpy has not
            if (committed / path).read_bytes() != (fresh / path).read_bytes():
                faults.append(f"{path} differs")
            continue
        (old, old_facts), (new, new_facts) = tensors(committed / path), tensors(fresh / path)
        if old_facts != new_facts or old.keys() != new.keys():
            faults.append(f"{path}: facts or names differ")
            continue
        for name, a in old.items():
            b, count = new[name], count + 1
            if a.shape != b.shape or a.dtype != b.dtype:
                faults.append(f"{path}: {name} is {b.dtype}{list(b.shape)}, was {a.dtype}{list(a.shape)}")
            elif a.dtype != np.float64:
                if not np.array_equal(a, b):
                    faults.append(f"{path}: {name} differs")
            else:
                off = np.linalg.norm(a - b) / np.linalg.norm(a) if np.any(a != b) else 0.0
                if not off <= (1e-11 if name.startswith("run.") else 1e-12):
                    faults.append(f"{path}: {name} is off by {off:.1e}")
                if off > worst:
                    worst, where = off, f"{path}: {name}"
    for fault in faults:
        print(fault)
    print(f"{count} tensors, largest difference {worst:.1e}" + (f" ({where})" if where else ""))
    sys.exit(bool(faults))


main()

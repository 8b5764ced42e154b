"""Writes the small tokenizers and the expected tokens that tests/unit/data_hf_tokenizer_test.cpp reads.

usage: python tokenizer_fixture.py QWEN3_TOKENIZER.json FOLDER      (made with tokenizers 0.23.3)

Qwen3's real file is cut to its first merges; the other tokenizers are that one under other rules: SmolLM2's, Llama 3's, and
one with the odd things that files may say. The expected tokens are those of the Python package.
"""
import copy
import json
import os
import sys

from tokenizers import Tokenizer

import tokenizer_text

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def level(**changes):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **changes}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def added(i, content, **changes):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **changes}


def cut(qwen, count):
    """The 256 bytes and what the first merges make of them, under ids of their own."""
    small = copy.deepcopy(qwen)
    model = small["model"]
    merges = [m if isinstance(m, list) else m.split(" ") for m in model["merges"][:count]]
    by_id = sorted(model["vocab"].items(), key=lambda item: item[1])
    tokens = [t for t, _ in by_id[:256]]
    for a, b in merges:
        if a + b not in tokens:
            tokens.append(a + b)
    model["vocab"] = {t: i for i, t in enumerate(tokens)}
    model["merges"] = merges
    for i, token in enumerate(small["added_tokens"]):
        token["id"] = len(tokens) + i
    return small


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        qwen = cut(json.load(f), 1200)
    size = len(qwen["model"]["vocab"])
    files = {"qwen3": qwen}

    smol = copy.deepcopy(qwen)
    smol.update(normalizer=None, pre_tokenizer=sequence({"type": "Digits", "individual_digits": True}, level()),
                post_processor=level(), decoder=level())
    smol["model"]["merges"] = [" ".join(m) for m in smol["model"]["merges"]]
    files["smollm2"] = smol

    llama = copy.deepcopy(qwen)
    llama.update(normalizer=None, pre_tokenizer=sequence(split(LLAMA3), level(use_regex=False)))
    llama["added_tokens"] = [added(size, "<|begin_of_text|>", special=True), added(size + 1, "<|end_of_text|>", special=True)]
    llama["post_processor"] = {"type": "Sequence", "processors": [level(), {
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}},
                                                 {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [], "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [size],
                                                             "tokens": ["<|begin_of_text|>"]}}}]}
    # Words that no merge makes: taken whole all the same.
    for i, word in enumerate(["Ġboiler", "Ġengine", "engine", "morning"]):
        llama["model"]["vocab"][word] = size + 2 + i
    llama["model"]["ignore_merges"] = True
    files["llama3"] = llama

    odd = copy.deepcopy(qwen)
    gone = {"Ä", "Õ"}  # two bytes that then have no token
    odd["model"]["merges"] = [m for m in odd["model"]["merges"] if not gone & set(m[0] + m[1])]
    kept = [t for t in odd["model"]["vocab"] if not gone & set(t)]
    odd["model"]["vocab"] = {t: i for i, t in enumerate(kept)}
    few = len(kept)
    odd["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFKC"}]}
    odd["added_tokens"] = [
        added(few, "<|im_start|>", special=True, lstrip=True), added(few + 1, "<|im_end|>", special=True, rstrip=True),
        added(few + 2, "mill", single_word=True), added(few + 3, "Åm", normalized=True), added(few + 4, "under", normalized=True),
        added(few + 5, "<think>", lstrip=True, rstrip=True), added(few + 6, "<|im_"), added(few + 7, "  "),
        added(odd["model"]["vocab"]["in"], "in", single_word=True)]
    odd["pre_tokenizer"] = sequence(split(O200K), split(r"[a-z]\d", "MergedWithPrevious"), split("=", "MergedWithNext", kind="String"),
                                    split(r"\p{Han}", "Contiguous"), split(r"[^\w\s]", "Contiguous", True), split(r"^#|;$", "Removed"),
                                    {"type": "Digits", "individual_digits": False}, level(use_regex=False, add_prefix_space=True))
    odd["model"].update(unk_token="!", fuse_unk=True)
    files["odd"] = odd

    texts = tokenizer_text.texts(12_000, seed=7)
    cases = {"texts": texts, "expected": []}
    for name, content in files.items():
        path = os.path.join(sys.argv[2], f"tokenizer_{name}.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(content, f, ensure_ascii=False, separators=(",", ":"))
            f.write("\n")
        peer = Tokenizer.from_file(path)
        for as_text in (False, True):
            peer.encode_special_tokens = as_text
            cases["expected"].append({"tokenizer": f"tokenizer_{name}.json", "as_text": as_text,
                                      "ids": [peer.encode(t, add_special_tokens=False).ids for t in texts]})
    with open(os.path.join(sys.argv[2], "tokenizer_cases.json"), "w", encoding="utf-8") as f:
        json.dump(cases, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()

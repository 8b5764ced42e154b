"""Compares the library's tokenizer with the Python package `tokenizers`, token for token, on 5 MB of mixed text.

usage: python tokenizer_equal.py TOKENIZER_BENCH TOKENIZER.. [--size BYTES] [--text FOLDER]..

TOKENIZER_BENCH is the program of bench/. A TOKENIZER is a tokenizer.json, or a GGUF file: from its metadata a
tokenizer.json is put together, and both readers are compared with what `tokenizers` makes of that. Prints one line of
JSON for each and ends with 1 where a token differs.
"""
import argparse
import array
import json
import os
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer

import tokenizer_ids
import tokenizer_text


def gguf_as_json(path):
    """What SmolLM2's GGUF says, in tokenizer.json's words."""
    found = tokenizer_ids.metadata(path)
    tokens = [t.decode() for t in found["tokenizer.ggml.tokens"]]
    kinds = found["tokenizer.ggml.token_type"]
    assert found["tokenizer.ggml.pre"] == b"smollm"
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, (t, k) in enumerate(zip(tokens, kinds)) if k == 3],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, level]},
        "post_processor": level, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": tokens[found["tokenizer.ggml.unknown_token_id"]],
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": False, "vocab": {t: i for i, t in enumerate(tokens)},
                  "merges": [m.decode() for m in found["tokenizer.ggml.merges"]]}}


def ours(bench, tokenizer, lines, as_text):
    with tempfile.NamedTemporaryFile() as out:
        said = subprocess.run([bench, tokenizer, lines, "--ids", out.name] + ["--as-text"] * as_text, check=True,
                              capture_output=True, text=True).stdout
        numbers = array.array("i", open(out.name, "rb").read())
    found, at = [], 0
    while at < len(numbers):
        found.append(numbers[at + 1:at + 1 + numbers[at]].tolist())
        at += 1 + numbers[at]
    return found, json.loads(said)


def without_newer_characters(peer, texts):
    """The Unicode tables of `tokenizers` are older than the library's: some seventy characters that have a
    compatibility form by now (U+10788, say) are left alone there. NFC, which Qwen3 uses, knows none of them."""
    if peer.normalizer is None:
        return texts
    said = json.loads(peer.to_str())["normalizer"]
    form = next(n["type"] for n in said.get("normalizers", [said]))
    newer = {ord(c): None for c in set("".join(texts))
             if peer.normalizer.normalize_str(c) == c != unicodedata.normalize(form, c)}
    return [t.translate(newer) for t in texts]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("tokenizers", nargs="+")
    parser.add_argument("--size", type=int, default=5_000_000)
    parser.add_argument("--text", action="append", default=[])
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    all_texts = tokenizer_text.texts(o.size, o.text, o.seed)
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        lines = os.path.join(folder, "texts.jsonl")
        for path in o.tokenizers:
            readers = [path]
            if path.endswith(".gguf"):
                readers.append(os.path.join(folder, "tokenizer.json"))
                with open(readers[1], "w", encoding="utf-8") as f:
                    json.dump(gguf_as_json(path), f)
            peer = Tokenizer.from_file(readers[-1])
            texts = without_newer_characters(peer, all_texts)
            with open(lines, "w", encoding="utf-8") as f:
                for text in texts:
                    f.write(json.dumps({"text": text}) + "\n")
            for as_text in (False, True):
                peer.encode_special_tokens = as_text
                wanted = [e.ids for e in peer.encode_batch(texts, add_special_tokens=False)]
                kept = sum(peer.decode(w, skip_special_tokens=False) == t for w, t in zip(wanted, texts))
                for reader in readers:
                    found, said = ours(o.bench, reader, lines, as_text)
                    unequal = [i for i, (a, b) in enumerate(zip(found, wanted)) if a != b]
                    if len(found) != len(wanted):
                        unequal.append(-1)
                    faults += len(unequal)
                    print(json.dumps({"tokenizer": os.path.basename(path), "reader": reader.rsplit(".", 1)[-1],
                                      "as_text": as_text, "texts": len(texts), "bytes": said["bytes"],
                                      "tokens": said["tokens"], "unequal": len(unequal),
                                      "changed_by_decode": said["changed_by_decode"], "changed_by_theirs": len(texts) - kept}))
                    for i in unequal[:5]:
                        a, b = found[i], wanted[i]
                        at = next((k for k in range(min(len(a), len(b))) if a[k] != b[k]), min(len(a), len(b)))
                        print(f"  text {i}, token {at}: got {a[at:at + 8]} {peer.decode(a[at:at + 8], skip_special_tokens=False)!r}, "
                              f"expected {b[at:at + 8]} {peer.decode(b[at:at + 8], skip_special_tokens=False)!r}", file=sys.stderr)
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())

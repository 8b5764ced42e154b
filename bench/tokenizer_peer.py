"""How fast texts become tokens, beside the Python package `tokenizers`: one thread each, turn by turn in one run.

usage: python tokenizer_peer.py TOKENIZER_BENCH TOKENIZER.json TEXT.. [--rounds N]

TEXT: folders of .txt and .pod files, or `mixed` for the text of tests/reference/tokenizer_text.py. `tokenizers` is given its
fastest call, encode_batch_fast, which leaves offsets out. Both encode everything once before the clock runs, so that word
caches are full on both sides. Prints one line of JSON: MB/s of both, best of the rounds, and the ratio.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "reference"))

from tokenizers import Tokenizer

import tokenizer_text


def main():
    arguments = sys.argv[1:]
    rounds = 5
    if "--rounds" in arguments:
        at = arguments.index("--rounds")
        rounds = int(arguments[at + 1])
        del arguments[at:at + 2]
    bench, path, *sources = arguments
    if sources == ["mixed"]:
        texts = tokenizer_text.texts(5_000_000)
    else:
        texts = [t for t in tokenizer_text.documents(sources) if t.strip(" \t\r\n")]
    size = sum(len(t.encode()) for t in texts)
    peer = Tokenizer.from_file(path)
    best = {"tokenizers": 0.0, "tokenizers_encode": 0.0, "accrete": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        lines = os.path.join(folder, "texts.jsonl")
        with open(lines, "w", encoding="utf-8") as f:
            for text in texts:
                f.write(json.dumps({"text": text}) + "\n")
        peer.encode_batch_fast(texts, add_special_tokens=False)
        for _ in range(rounds):
            start = time.perf_counter()
            tokens = sum(len(e) for e in peer.encode_batch_fast(texts, add_special_tokens=False))
            best["tokenizers"] = max(best["tokenizers"], size / (time.perf_counter() - start) / 1e6)
            start = time.perf_counter()
            for text in texts:
                peer.encode(text, add_special_tokens=False)
            best["tokenizers_encode"] = max(best["tokenizers_encode"], size / (time.perf_counter() - start) / 1e6)
            said = json.loads(subprocess.run([bench, path, lines, "--rounds", "2"], check=True, capture_output=True, text=True).stdout)
            assert said["tokens"] == tokens, (said["tokens"], tokens)
            best["accrete"] = max(best["accrete"], said["mb_per_second"])
    print(json.dumps({"tokenizer": os.path.basename(os.path.dirname(os.path.abspath(path))), "bytes": size, "mb_per_second": best,
                      "ratio": best["accrete"] / max(best["tokenizers"], best["tokenizers_encode"])}))


if __name__ == "__main__":
    main()

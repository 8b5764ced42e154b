"""Writes tokenizer_ids.hpp: what the Python package `tokenizers` (made with 0.23.3) gives for a few texts.

usage: python tokenizer_ids.py SmolLM2-135M-Instruct.Q4_1.gguf > tokenizer_ids.hpp

The vocabulary and the merges come out of the GGUF file; the four pre-tokenizers are built from that package's
own parts, so that neither a split pattern nor a merge loop of the library is used.
"""
import struct
import sys

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers as pre

TEXTS = [
    "The boiler feeds 2 cylinders at 12.5 bar; in 1804 it hauled 10 t over 14.5 km. They've said it's \"enough\".",
    "for (int i = 0; i < 128; ++i) {\n\tsum += x[i]*y[i];   // don't unroll\n}\n\n\n    return sum;\n",
    "=head1 NAME\r\n\r\nC<open> - opens I'LL, WE'RE and SHE'D\r\n\r\n=over 4\r\n",
    "Z\u00fcrich, S\u00e3o Paulo, \u0141\u00f3d\u017a, \u0391\u03b8\u03ae\u03bd\u03b1, \u041c\u043e\u0441\u043a\u0432\u0430, "
    "\u6771\u4eac\u90fd, \uc11c\uc6b8, \u05d9\u05e8\u05d5\u05e9\u05dc\u05d9\u05dd, \u0627\u0644\u0642\u0627\u0647\u0631\u0629",
    "e\u0301a\u0308 \u00bd \u00b2 \u2167 \u0663\u0664\u0665 \u0967\u0968 12 345 6789",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e8\U0001f1ed \U0001f937\U0001f3fd\u200d\u2642\ufe0f ok \u2713\u2713",
    " \t \u00a0\u3000x\u2003\u2003 1\u180e2 \u1680 a\u0085b\u2028c  ",
    "   leading, trailing   ",
    "\n\n \n  \n",
    "'s 'S 't 'll 'LL 'd 'x ' s '\u017f",
    "<|im_start|>user\nhi<|im_end|><|im_start|><|im_",
    "a\x04b\U00040000c",
]


def metadata(path):
    sizes = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    with open(path, "rb") as f:
        def read(code):
            return struct.unpack("<" + code, f.read(struct.calcsize("<" + code)))

        def text():
            return f.read(read("Q")[0])

        def value(kind):
            if kind == 8:
                return text()
            if kind == 9:
                inner, count = read("IQ")
                return [value(inner) for _ in range(count)]
            return read(sizes[kind])[0]

        _, _, _, count = read("4sIQQ")
        found = {}
        for _ in range(count):
            key = text().decode()
            found[key] = value(read("I")[0])
        return found


def by_pattern(digits):
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits +
               r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    return pre.Sequence([pre.Split(Regex(pattern), "isolated"),
                         pre.ByteLevel(add_prefix_space=False, use_regex=False)])


def quoted(text):
    out = ""
    for b in text.encode():
        out += chr(b) if 0x20 <= b < 0x7F and chr(b) not in "\"\\?" else "\\%03o" % b
    return '"' + out + '"'


def main():
    found = metadata(sys.argv[1])
    tokens = [t.decode() for t in found["tokenizer.ggml.tokens"]]
    kinds = found["tokenizer.ggml.token_type"]
    merges = [tuple(m.decode().split(" ")) for m in found["tokenizer.ggml.merges"]]
    unknown = tokens[found["tokenizer.ggml.unknown_token_id"]]
    gpt2 = pre.ByteLevel(add_prefix_space=False, use_regex=True)
    splits = {"smollm": pre.Sequence([pre.Digits(individual_digits=True), gpt2]), "gpt-2": gpt2,
              "qwen2": by_pattern(r"\p{N}"), "llama-bpe": by_pattern(r"\p{N}{1,3}")}
    print("#pragma once\n// Made by tokenizer_ids.py; not to be edited.\n#include <cstdint>\n#include <string>\n"
          "#include <vector>\n\nnamespace test {\n\nstruct tokenizer_case {\n  char const* split;\n  bool parse;\n"
          "  std::string text;\n  std::vector<std::int32_t> ids;\n};\n\n// clang-format off\n"
          "inline std::vector<tokenizer_case> const tokenizer_cases{")
    for name, split in splits.items():
        for parse in (False, True):
            tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges, unk_token=unknown,
                                             ignore_merges=name == "llama-bpe"))
            tokenizer.pre_tokenizer = split
            if parse:
                tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                              for t, kind in zip(tokens, kinds) if kind == 3])
            for text in TEXTS:
                if parse and "<|" not in text:
                    continue
                ids = tokenizer.encode(text).ids
                print('{"%s", %s, %s, {%s}},' % (name, "true" if parse else "false", quoted(text),
                                                 ", ".join(map(str, ids))))
    print("};\n// clang-format on\n\n}  // namespace test")


if __name__ == "__main__":
    main()

"""Mixed text for comparing tokenizers: texts(size, folders) is a function of its arguments and nothing else.

English and code (from folders of documentation, where given), CJK, Arabic, Hindi, Thai, emoji with joiners, combining
marks, digits of several scripts, long white space, CRLF, added tokens inside of text, and random valid Unicode.
"""
import os
import random

ENGLISH = ("the boiler river engine slowly carries turns old water under a bridge and of in stone mill every morning "
           "they've said it's I'LL we're she'd don't can't o'clock naïve café coöperate résumé Zürich São Łódź").split()
CODE = ["for (int i = 0; i < n; ++i) {\n\tsum += x[i] * y[i];\n}\n", "def f(x):\n    return x**2 + 3.5e-7\n\n\n",
        "if (a != b && !c) { p->next = NULL; }\r\n", "SELECT * FROM t WHERE id = 42;\n", "\tfoo(bar)  # don't->y\n",
        "<div class=\"a b\">\n  <p>&nbsp;</p>\n</div>\n", "#include <vector>\n\n\n\nint main() { return 0; }\n",
        "let s = `${x}`; // ok\n        deeply.indented();\n", "{\"key\": [1, 22, 333, 4444, 55555]}\n"]
LETTERS = {
    "chinese": [(0x4E00, 0x9FFF)], "japanese": [(0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FFF)],
    "korean": [(0xAC00, 0xD7A3), (0x1100, 0x11FF)], "arabic": [(0x0621, 0x064A), (0x064B, 0x0652)],
    "hindi": [(0x0904, 0x0939), (0x093C, 0x094D), (0x0958, 0x095F)], "thai": [(0x0E01, 0x0E3A), (0x0E40, 0x0E4E)],
    "russian": [(0x0410, 0x044F)], "greek": [(0x0391, 0x03C9), (0x1F00, 0x1FFE)], "hebrew": [(0x05D0, 0x05EA), (0x05B0, 0x05BD)],
    "tamil": [(0x0B95, 0x0BCD)], "vietnamese": [(0x1EA0, 0x1EF9), (0x61, 0x7A)], "georgian": [(0x10D0, 0x10FA)],
    "bengali": [(0x0985, 0x09CD)], "tibetan": [(0x0F40, 0x0F84)], "myanmar": [(0x1000, 0x1039)],
    "extended": [(0x20000, 0x2A6DF)], "younger": [(0x31350, 0x323AF), (0x105C0, 0x105F3), (0x11F02, 0x11F59)],
}
EMOJI = ["👩‍👩‍👧", "🇨🇭", "🤷🏽‍♂️", "✓", "👨🏿‍🚀", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣", "😀", "🫠", "🧑‍🤝‍🧑", "\u200d", "\ufe0f"]
MARKS = [chr(c) for c in (*range(0x300, 0x315), 0x327, 0x328, 0x345, 0x35C, 0x334, 0x591, 0x5B0, 0x64B, 0x93C, 0x94D, 0xE38, 0xE48,
                          0xF71, 0xF72, 0x3099, 0x309A, 0x1D165, 0x1D16D, 0x20D0, 0x302A, 0x8D0, 0x1DFA, 0x10F46)]
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\r\n\r\n", "\t", "\u00a0", "\u3000", "\u2003", "\u2028", "\u0085", "\u180e",
          "\u200b", "\u1680", "\x0b", "\x0c", " " * 17, " " * 200, "\n" * 33, "\t\t\t\t", " \n ", "  \r\n  "]
DIGITS = [(0x30, 0x39), (0x660, 0x669), (0x966, 0x96F), (0xFF10, 0xFF19), (0x2160, 0x2188), (0xBC, 0xBE), (0x10D40, 0x10D49),
          (0x1D2C0, 0x1D2D3), (0x11DE0, 0x11DE9), (0x16FF4, 0x16FF6), (0x1E4F0, 0x1E4F9)]
ADDED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|im_", "|>", "<tool_call>", "<|fim_prefix|>",
         "<repo_name>", "<|im_start|>user\n", " <|im_end|> ", "<|endoftext|><|endoftext|>", "<empty_output>", "A\u030am", "\u212bm", "\uff4dill"]


def character(draw, ranges):
    first, last = draw.choice(ranges)
    return chr(draw.randint(first, last))


def anything(draw):
    c = draw.choice([draw.randint(0, 0x7F), draw.randint(0x80, 0x7FF), draw.randint(0x800, 0xFFFF), draw.randint(0x10000, 0x10FFFF),
                     draw.randint(0x300, 0x36F), draw.randint(0x1100, 0x11FF), draw.randint(0xAC00, 0xD7A3)])
    return chr(c if not 0xD800 <= c < 0xE000 else c - 0x5000)


def piece(draw):
    kind = draw.randrange(12)
    if kind == 0:
        return " ".join(draw.choice(ENGLISH) for _ in range(draw.randint(3, 40))) + draw.choice([".", "!", "?\n", ", "])
    if kind == 1:
        return "".join(draw.choice(CODE) for _ in range(draw.randint(1, 5)))
    if kind in (2, 3, 4):
        ranges = LETTERS[draw.choice(sorted(LETTERS))]
        words = ["".join(character(draw, ranges) for _ in range(draw.randint(1, 9))) for _ in range(draw.randint(1, 15))]
        return draw.choice(["", " ", "، ", "。"]).join(words)
    if kind == 5:
        return "".join(draw.choice(EMOJI) for _ in range(draw.randint(1, 6)))
    if kind == 6:
        return "".join(draw.choice("aeiouAEIOUcdnsz가ᄀかはㄱ각q") + "".join(draw.choice(MARKS) for _ in range(draw.randint(0, 4)))
                       for _ in range(draw.randint(1, 12)))
    if kind == 7:
        return "".join(character(draw, DIGITS[:draw.choice([1, 1, 1, 1, 3, len(DIGITS)])]) for _ in range(draw.randint(1, 12)))
    if kind == 8:
        return "".join(draw.choice(SPACES) for _ in range(draw.randint(1, 4)))
    if kind == 9:
        return draw.choice(ADDED)
    if kind == 10:
        return "".join(anything(draw) for _ in range(draw.randint(1, 30)))
    return "".join(draw.choice(["'s", "'S", "'ll", "'LL", "'ſ", "'", "’s", "-", "->", "...", "(x):\n", "#", "@"]) for _ in range(3))


def documents(folders):
    for folder in folders:
        for below, names, files in os.walk(folder):
            names.sort()
            for name in sorted(files):
                if name.endswith((".txt", ".pod")):
                    with open(os.path.join(below, name), encoding="utf-8", newline="") as f:
                        yield f.read()


def texts(size, folders=(), seed=1):
    """About `size` bytes, half of it from the folders as long as they last."""
    draw = random.Random(seed)
    out, done, from_files = [], 0, documents(folders)
    while done < size:
        if len(out) % 8 == 7:
            text = next(from_files, None)
            if text is not None:
                text = text[:20000]
        else:
            text = None
        if text is None:
            text = "".join(piece(draw) + draw.choice(["", "", " ", "\n"]) for _ in range(draw.randint(1, 60)))
        if text.strip(" \t\r\n"):
            out.append(text)
            done += len(text.encode())
    return out

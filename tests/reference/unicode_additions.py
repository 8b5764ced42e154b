"""Writes include/accrete/data/unicode_additions.hpp: what the split patterns of the Python package `tokenizers` know of
characters that Unicode got after version 14, which is the one of PCRE2 10.42.

usage: python3.11 unicode_additions.py > unicode_additions.hpp      (made with tokenizers 0.23.3)

Python 3.11's own tables are Unicode 14, too: what a class of `tokenizers` has beyond them is an addition.
"""
import sys
import unicodedata

from tokenizers import Regex, pre_tokenizers as pre

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So".split()


def members(splitter, between):
    found = set()
    text = "".join(between + chr(c) for c in CODES)
    for _, (begin, end) in splitter.pre_tokenize_str(text):
        if end - begin == 1 and begin % 2 == 1:
            found.add(CODES[begin // 2])
    return found


def ranges(codes):
    out = []
    for c in sorted(codes):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return "".join(r"\x{%X}" % a if a == b else r"\x{%X}-\x{%X}" % (a, b) for a, b in out)


def main():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    rows = []
    numbers = set()
    for name in CATEGORIES:
        found = members(pre.Split(Regex(r"\p{%s}" % name), "isolated"), " " if name[0] == "L" else "a")
        if name[0] == "N":
            numbers |= found
        old = {c for c in CODES if unicodedata.category(chr(c)) == name}
        if found - old:
            rows.append((name, ranges(found - old)))
        if old - found:
            print("moved out of", name, [hex(c) for c in sorted(old - found)], file=sys.stderr)
    han = members(pre.Split(Regex(r"\p{Han}"), "isolated"), "a")
    old = {c for c in CODES if unicodedata.name(chr(c), "").startswith("CJK UNIFIED IDEOGRAPH")}
    rows.append(("Han", ranges({c for c in han - old if c > 0x2B738})))
    digits = members(pre.Digits(individual_digits=True), "a")
    assert not numbers - digits
    rows.append(("Digits", ranges(digits - numbers)))

    print("#pragma once\n// Made by tests/reference/unicode_additions.py; not to be edited.\n#include <array>\n"
          "#include <string_view>\n\nnamespace accrete::inline v0::data {\n\n"
          "/// Characters younger than PCRE2's tables that Hugging Face's `tokenizers` knows, as the inside of a\n"
          "/// character class. A later PCRE2 knows them as well; then they stand there twice.\n"
          "struct unicode_addition {\n  std::string_view category;  ///< two letters, \"Han\", or \"Digits\": numeric "
          "there, of no category in its patterns\n  std::string_view members;\n};\n\n// clang-format off\n"
          "inline constexpr std::array<unicode_addition, %d> unicode_additions{{" % len(rows))
    for name, text in rows:
        pieces = [text[i:i + 96] for i in range(0, len(text), 96)]
        print('    {"%s",' % name)
        for i, piece in enumerate(pieces):
            print('     R"(%s)"%s' % (piece, "}," if i + 1 == len(pieces) else ""))
    print("}};\n// clang-format on\n\n}  // namespace accrete::inline v0::data")


main()

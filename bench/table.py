"""The table of bench/run.sh: rows as they are printed, kept between runs and written into RESULTS.md."""
import datetime
import json
import os
import platform
import re
import subprocess

BEGIN = "<!-- bench/run.sh writes from here -->"
END = "<!-- to here -->"
SIMD = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "AVX-512 BF16", "amx_bf16": "AMX BF16"}


def mib(count):
    return f"{count / 2**20:,.0f} MiB"


def row(what, ours, peers="", ratio=None, goal="", met=None):
    """`met` is True, False, a word of its own, or None where there is no goal."""
    if isinstance(met, bool):
        met = "met" if met else "not met"
    return [what, ours, peers, "" if ratio is None else f"{ratio:.2f}", goal, met or ""]


def markdown(rows):
    head = ["What", "Ours", "The peer's", "Ratio", "Goal", ""]
    return "".join("| " + " | ".join(r) + " |\n" for r in [head, ["---"] * len(head), *rows])


def said(*command, folder=None):
    """All that a command prints, '' where it cannot run."""
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit(root):
    changed = said("git", "status", "--porcelain", "--", ":!bench/RESULTS.md", folder=root)
    name = said("git", "rev-parse", "--short=7", "HEAD", folder=root) or "unknown"
    return name + (" with changes" if changed else "")


def machine():
    with open("/proc/cpuinfo") as f:
        info = f.read()
    name = re.search(r"^model name\s*: (.*)", info, re.M)
    flags = re.search(r"^flags\s*: (.*)", info, re.M)
    has = flags[1].split() if flags else []
    with open("/proc/meminfo") as f:
        gib = int(f.readline().split()[1]) / 2**20
    onednn = said("dpkg-query", "-W", "-f", "${Version}", "libdnnl-dev") or "none"
    compiler = (said(os.environ.get("CXX", "g++"), "--version").splitlines() or ["g++"])[0]
    wide = ", ".join(text for flag, text in SIMD.items() if flag in has)
    processor = name[1] if name else platform.machine()
    return f"{processor} ({wide}), {os.cpu_count()} cores, {gib:.0f} GiB, {compiler}, oneDNN {onednn}"


class KeptRows:
    """The rows of each group, so that one can be measured again alone. Those of another commit don't count."""

    def __init__(self, folder, of_commit):
        self.folder, self.commit = folder, of_commit
        os.makedirs(folder, exist_ok=True)

    def path(self, group):
        return os.path.join(self.folder, f"rows-{group}.json")

    def put(self, group, rows, torch, load):
        kept = {"commit": self.commit, "date": datetime.date.today().isoformat(), "torch": torch, "load": load, "rows": rows}
        with open(self.path(group), "w") as f:
            json.dump(kept, f)

    def get(self, group):
        """None where it was not measured at this commit."""
        try:
            with open(self.path(group)) as f:
                kept = json.load(f)
        except OSError:
            return None
        return kept if kept["commit"] == self.commit else None


def write_results(path, kept_rows, groups):
    """Replaces the generated section of RESULTS.md, or adds one at its end."""
    kept = [k for k in map(kept_rows.get, groups) if k]
    if not kept:
        return
    rows = [r for k in kept for r in k["rows"]]
    torch = "".join(f", PyTorch {t}" for t in sorted({k["torch"] for k in kept if k["torch"]}))
    dates = sorted({k["date"] for k in kept})
    days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    load = max(k["load"] for k in kept)
    text = (f"{BEGIN}\n## Beside PyTorch: `bash bench/run.sh`\n\n"
            f"Commit {kept_rows.commit}, {days}. {machine()}{torch}.\n"
            f"Medians, turn by turn in one run; load average up to {load:.1f}, our own threads included.\n\n"
            f"{markdown(rows)}{END}\n")
    with open(path) as f:
        old = f.read()
    if BEGIN in old and END in old:
        new = old[:old.index(BEGIN)] + text + old[old.index(END) + len(END) + 1:]
    else:
        new = old.rstrip("\n") + "\n\n" + text
    with open(path + ".new", "w") as f:
        f.write(new)
    os.replace(path + ".new", path)

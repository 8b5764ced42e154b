"""Opens every model below a folder with transformers and compares its logits with those written beside it.

usage: check_export.py FOLDER    (what model_save_pretrained_test and data_save_tokenizer_test write to $ACCRETE_EXPORT_FOLDER)
"""
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
# Remote code is copied below this folder; a run must not find that of an earlier one.
os.environ["HF_MODULES_CACHE"] = tempfile.mkdtemp(prefix="accrete-modules-")

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer


def distance(a, b):
    a, b = a.double(), b.double()
    return ((a - b).norm() / b.norm()).item()


def open_model(folder, own_code, **options):
    return AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=own_code, **options).eval()


def check(folder):
    expected = load_file(folder / "expected.safetensors")
    ids, logits = expected["input_ids"][None], expected["logits"]
    own_code = json.loads((folder / "config.json").read_text())["model_type"] == "accrete"
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=own_code, dtype=torch.float32, output_loading_info=True)
    faults = {k: v for k, v in report.items() if v}
    assert not faults, f"{folder}: {faults}"
    model.eval()
    found = {"class": type(model).__name__}
    with torch.no_grad():
        found["f32"] = distance(model(ids).logits[0], logits)
        # The same tokens after and before padding, in one batch with a shorter text.
        n = ids.shape[1]
        short = ids[:, : n - 4]
        pad = torch.zeros((1, 4), dtype=ids.dtype)
        for side, row, mask in (("right", [short, pad], [1] * (n - 4) + [0] * 4), ("left", [pad, short], [0] * 4 + [1] * (n - 4))):
            batch = torch.cat((ids, torch.cat(row, dim=1)))
            out = model(batch, attention_mask=torch.tensor([[1] * n, mask])).logits
            kept = out[1, : n - 4] if side == "right" else out[1, 4:]
            found["padded " + side] = max(distance(out[0], logits), distance(kept, logits[: n - 4]))
        greedy = dict(max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)
        cached = model.generate(ids, use_cache=True, **greedy)
        plain = model.generate(ids, use_cache=False, **greedy)
        assert torch.equal(cached, plain), f"{folder}: generation differs with a cache"
        for tokens in ids[0], cached[0]:
            assert tokens.max() < model.config.vocab_size
        if own_code:  # the classes of transformers compute norms in f32 whatever the weights are
            found["f64"] = distance(open_model(folder, True, dtype=torch.float64)(ids).logits[0], logits)
    loss = model(ids, labels=ids).loss
    loss.backward()
    found["ce"] = abs(loss.item() - torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:]).item())
    stuck = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert not stuck, f"{folder}: no finite gradient in {stuck}"
    with tempfile.TemporaryDirectory() as again:
        model.save_pretrained(again)
        assert type(AutoConfig.from_pretrained(folder, trust_remote_code=own_code)).model_type == model.config.model_type
        if not own_code:
            assert torch.equal(open_model(again, False, dtype=torch.float32)(ids).logits, model(ids).logits)
    return found


def check_tokenizer(folder):
    words = AutoTokenizer.from_pretrained(folder)
    expected = json.loads((folder / "expected_ids.json").read_text())
    wrong = [e["text"] for e in expected if words.encode(e["text"], add_special_tokens=False) != e["ids"]]
    assert not wrong, f"{folder}: other tokens for {wrong[:3]}"
    whole = [e for e in expected if words.unk_token_id not in e["ids"]]  # a byte that it lacks does not come back
    assert len(whole) > 4
    assert all(words.decode(e["ids"], skip_special_tokens=False) == e["text"] for e in whole)
    chat = words.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert "<|im_start|>user\nHi<|im_end|>" in chat, chat
    print(f"{folder.name:24} {type(words).__name__:20} {len(expected)} texts, the same tokens")


def main():
    root = Path(sys.argv[1])
    folders = sorted(p.parent for p in root.rglob("expected.safetensors"))
    if not folders:
        sys.exit(f"check_export: got no expected.safetensors below {root}, expected one beside each model")
    bad = 0
    for file in root.rglob("expected_ids.json"):
        check_tokenizer(file.parent)
    for folder in folders:
        found = check(folder)
        limits = {"f64": 1e-9}
        wrong = [k for k, v in found.items() if k != "class" and not v <= limits.get(k, 1e-5)]
        bad += bool(wrong)
        numbers = "  ".join(f"{k} {v:.1e}" for k, v in found.items() if k != "class")
        print(f"{str(folder.relative_to(root)):24} {found['class']:20} {numbers}{'  WRONG: ' + ', '.join(wrong) if wrong else ''}")
    print(f"check_export: {len(folders) - bad} of {len(folders)} models give the logits they were written with")
    sys.exit(bad > 0)


main()

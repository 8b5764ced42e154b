"""Makes the numbers that the library's models are held against: fixtures/ of this folder, or the folder given.

usage: python make_fixtures.py [OUT]         (requirements.txt has the packages)

OUT/NAME/                     a teacher as transformers saves it: qwen3, llama, qwen2, llama3
OUT/teacher_NAME.safetensors  what transformers makes of a ragged batch: residual stream, logits, losses
OUT/student_NAME.safetensors  a student in plain PyTorch: initial weights, residual stream, logits, losses, gradients,
                              and a run of 12 updates that grows from one layer to two

All is computed in double precision; weights are exact in single precision.
"""
import pathlib
import sys
import zlib

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

from students import PLACEMENTS, Student, batch_losses, rms_norm, run, weight_shapes
from teachers import LENGTHS, MODELS, Teacher, drawn, drawn_documents, save

# The teacher, and a clip that bites in some of the run's updates and leaves others alone.
STUDENTS = {"pre": ("qwen3", 2.5), "post": ("qwen3", 2.5), "peri": ("llama", 2.6), "olmo2": ("qwen2", 1.6),
            "deepnorm": ("llama3", 0.9)}
LAYERS = 2
# A gentle learning rate: Adam makes large steps of gradients that cancel, and single precision is to follow.
RECIPE = dict(phases=2, steps=6, warmup=2, peak=3e-3, minimum=3e-5, beta1=0.9, beta2=0.95, epsilon=1e-8,
              weight_decay=0.1, alpha=0.7, gamma=0.3, temperature=1.0, batch_tokens=20)


def laid_out(prefix, documents):
    lengths = [len(d) for d in documents]
    return {f"{prefix}.tokens": torch.cat(documents).to(torch.int32),
            f"{prefix}.offsets": torch.tensor(np.concatenate(([0], np.cumsum(lengths))), dtype=torch.int64)}


def write(path, tensors, **facts):
    arrays = {}
    for name, tensor in tensors.items():
        array = tensor.detach().numpy() if isinstance(tensor, torch.Tensor) else np.asarray(tensor)
        assert np.isfinite(array).all(), name
        arrays[name] = np.ascontiguousarray(array)
    save_file(arrays, path, metadata={key: str(value) for key, value in facts.items()})


def all_states(model, documents, *arguments):
    per_document = [model.states(d, *arguments) for d in documents]
    states = {f"states.{i}": torch.cat([seen[i] for seen, _ in per_document]) for i in range(len(per_document[0][0]))}
    return states, torch.cat([hidden for _, hidden in per_document])


def make_teacher(name, out):
    save(name, out / name)
    teacher = Teacher(out / name)
    documents = drawn_documents(name, LENGTHS, teacher.shape.vocabulary)
    states, hidden = all_states(teacher, documents)
    logits = [teacher.logits(d) for d in documents]
    ce = sum(torch.nn.functional.cross_entropy(a[:-1], d[1:], reduction="sum") for a, d in zip(logits, documents))
    write(out / f"teacher_{name}.safetensors",
          laid_out("batch", documents) | states |
          {"hidden": hidden, "logits": torch.cat(logits), "ce": ce / sum(len(d) - 1 for d in documents)})
    return teacher, documents


def check_pieces(teacher, documents):
    """The students' pieces, put together as pre-norm with the teacher's weights, are the teacher."""
    weights = dict(teacher.model.state_dict())
    embedding = weights["model.embed_tokens.weight"]
    copy = Student("pre", teacher.shape, None, embedding, weights | {"lm_head.weight": teacher.model.lm_head.weight})
    for document in documents:
        seen, hidden = copy.states(document, teacher.model.config.num_hidden_layers)
        told, last = teacher.states(document)
        for a, b in zip(seen + [hidden, copy.logits(hidden)], told + [last, teacher.logits(document)], strict=True):
            assert (a - b).norm() <= 1e-12 * b.norm()
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    assert torch.allclose(rms_norm(x, torch.ones(4), 0.0), x / 7.5**0.5, rtol=1e-14)


def make_student(placement, teacher_name, teacher, clip, out):
    recipe = RECIPE | {"clip": clip}
    shape = teacher.shape
    initial = {n: drawn(placement, n, s).float() for n, s in weight_shapes(placement, shape, LAYERS).items()}
    state = teacher.model.state_dict()  # what every student starts from: the head, and at its ends the final norm
    initial["lm_head.weight"] = teacher.model.lm_head.weight.float()
    for end in ("model.entry_norm.weight", "model.norm.weight"):
        if end in initial:
            initial[end] = state["model.norm.weight"].float()
    embedding = state["model.embed_tokens.weight"]

    def fresh():
        return Student(placement, shape, LAYERS, embedding,
                       {n: w.double().clone().requires_grad_(True) for n, w in initial.items()})

    student = fresh()
    documents = drawn_documents(placement, LENGTHS, shape.vocabulary)
    answers = [teacher.logits(d) for d in documents]
    states, hidden = all_states(student, documents, LAYERS)
    tensors = laid_out("batch", documents) | states | {"hidden": hidden, "logits": student.logits(hidden)}
    tensors |= {f"weights.{n}": w for n, w in initial.items()}
    for tau in (1, 2):
        kd, ce = batch_losses(student, answers, documents, LAYERS, float(tau))
        tensors |= {f"kd.tau{tau}": kd, "ce": ce}
    (recipe["alpha"] * kd + recipe["gamma"] * ce).backward()  # at tau 2; the run's gradients are at tau 1
    tensors |= {f"gradients.{n}": w.grad for n, w in student.weights.items()}

    # Lengths from 1 to 13, as many documents as the run takes.
    random = np.random.default_rng(zlib.crc32(f"{placement} lengths".encode()))
    text = drawn_documents(f"{placement} text", random.integers(1, 14, 60), shape.vocabulary)
    validation = drawn_documents(f"{placement} validation", (3, 9, 1, 5), shape.vocabulary)
    student = fresh()
    steps, evaluations = run(student, teacher.logits, text, validation, recipe)
    clipped = [s["clip_scale"] < 1 for s in steps]
    assert len(steps) == 12 and 3 <= sum(clipped) <= 9, "the clip must bite, at times"
    tensors |= laid_out("text", text) | laid_out("validation", validation)
    tensors |= {f"run.{key}": [float(s[key]) for s in steps] for key in steps[0]}
    tensors |= {f"run.{key}": [e[key] for e in evaluations] for key in evaluations[0]}
    tensors |= {f"run.weights.{n}": w for n, w in student.weights.items()}
    write(out / f"student_{placement}.safetensors", tensors, teacher=teacher_name, placement=placement, layers=LAYERS,
          **recipe)
    print(f"{placement:9} on {teacher_name:6} loss {steps[0]['loss']:.3f} -> {steps[5]['loss']:.3f} | "
          f"{steps[6]['loss']:.3f} -> {steps[-1]['loss']:.3f}, clipped {sum(clipped)} of {len(steps)}")


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("fixtures"))
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    torch.use_deterministic_algorithms(True)
    teachers = {}
    for name in MODELS:
        teachers[name], documents = make_teacher(name, out)
        check_pieces(teachers[name], documents)
    for placement in PLACEMENTS:
        name, clip = STUDENTS[placement]
        make_student(placement, name, teachers[name], clip, out)
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    print(f"{out}: {size} bytes; torch {torch.__version__}, transformers {transformers.__version__}")


if __name__ == "__main__":
    main()

"""Students in plain PyTorch, each from the equation of its paper, and the objective and optimizer of arXiv 2608.13156.

Everything is written out for one document at a time and left to autograd: no kernel, no padding, no mask but the
causal one. It shares nothing with the library but the names of the weights.

Norms, in the order of the equation, and the ends of the stack ("final" reads the stream into the head):

    pre       x + f(n(x))           arXiv 2002.04745; a final norm
    post      n(x + f(x))           arXiv 1706.03762; an entry norm on the embedding, none before the head
    peri      x + n2(f(n1(x)))      arXiv 2502.02732; a final norm, no norm of the embedding
    olmo2     x + n(f(x))           arXiv 2501.00656; a final norm
    deepnorm  n(alpha x + f(x))     arXiv 2203.00555; alpha = (2 L)^(1/4) at the final depth L; no norm at the ends

for f = attention, and then on the result for f = MLP.
"""
import dataclasses
import math

import torch


@dataclasses.dataclass
class Shape:
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    eps: float
    theta: float
    head_norms: bool = False
    biases: bool = False
    scaling: dict | None = None  # Llama 3's, as config.json has it


@dataclasses.dataclass
class Placement:
    equation: object  # (x, f, norms, layers) -> x
    attention_norms: list
    mlp_norms: list
    entry: bool = False
    final: bool = False


PLACEMENTS = {
    "pre": Placement(lambda x, f, n, L: x + f(n[0](x)), ["input_layernorm"], ["post_attention_layernorm"], final=True),
    "post": Placement(lambda x, f, n, L: n[0](x + f(x)), ["attn_norm_0"], ["mlp_norm_0"], entry=True),
    "peri": Placement(lambda x, f, n, L: x + n[1](f(n[0](x))), ["input_layernorm", "post_attention_layernorm"],
                      ["pre_feedforward_layernorm", "post_feedforward_layernorm"], final=True),
    "olmo2": Placement(lambda x, f, n, L: x + n[0](f(x)), ["post_attention_layernorm"], ["post_feedforward_layernorm"],
                       final=True),
    "deepnorm": Placement(lambda x, f, n, L: n[0]((2 * L) ** 0.25 * x + f(x)), ["attn_norm_0"], ["mlp_norm_0"]),
}


def rms_norm(x, gain, eps):
    return gain * x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)


def rotary_frequencies(s):
    """Radians a position, [head_dim / 2]: theta^(-2i / head_dim), and Llama 3.1's stretch of the long waves."""
    plain = s.theta ** (-torch.arange(0, s.head_dim, 2, dtype=torch.float64) / s.head_dim)
    if s.scaling is None:
        return plain
    low, high = s.scaling["low_freq_factor"], s.scaling["high_freq_factor"]
    turns = s.scaling["original_max_position_embeddings"] * plain / (2 * math.pi)  # in the original context
    stay = ((turns - low) / (high - low)).clamp(0, 1)
    return stay * plain + (1 - stay) * plain / s.scaling["factor"]


def rotated(x, frequencies):
    """x [T, heads, head_dim] of positions 0..T-1; the pairs are (i, i + head_dim / 2)."""
    angles = torch.arange(len(x), dtype=torch.float64)[:, None, None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Student:
    """`weights`: name -> tensor. Layers 0..active-1 run; `final_depth` is what DeepNorm's factor is taken at."""

    def __init__(self, placement, shape, final_depth, embedding, weights):
        self.placement, self.shape, self.final_depth = PLACEMENTS[placement], shape, final_depth
        self.embedding, self.weights = embedding, weights
        self.frequencies = rotary_frequencies(shape)

    def linear(self, x, name):
        y = x @ self.weights[name + ".weight"].T
        return y + self.weights[name + ".bias"] if name + ".bias" in self.weights else y

    def norm(self, name):
        return lambda x: rms_norm(x, self.weights[name + ".weight"], self.shape.eps)

    def attention(self, x, at):
        s, t = self.shape, len(x)
        q = self.linear(x, at + "q_proj").view(t, s.heads, s.head_dim)
        k = self.linear(x, at + "k_proj").view(t, s.kv_heads, s.head_dim)
        v = self.linear(x, at + "v_proj").view(t, s.kv_heads, s.head_dim)
        if s.head_norms:
            q, k = self.norm(at + "q_norm")(q), self.norm(at + "k_norm")(k)
        q, k = rotated(q, self.frequencies), rotated(k, self.frequencies)
        mixed = []
        for head in range(s.heads):
            kv = head // (s.heads // s.kv_heads)
            scores = q[:, head] @ k[:, kv].T / math.sqrt(s.head_dim)
            scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf)
            mixed.append(scores.softmax(-1) @ v[:, kv])
        return self.linear(torch.cat(mixed, dim=-1), at + "o_proj")

    def mlp(self, x, at):
        gate, up = self.linear(x, at + "gate_proj"), self.linear(x, at + "up_proj")
        return self.linear(gate * torch.sigmoid(gate) * up, at + "down_proj")

    def layer_names(self, layer):
        return f"model.layers.{layer}."

    def states(self, document, active):
        """The residual stream before the first layer and after each sublayer, and what the head reads."""
        p, x = self.placement, self.embedding[document]
        if p.entry:
            x = self.norm("model.entry_norm")(x)
        seen = [x]
        for layer in range(active):
            at = self.layer_names(layer)
            for f, names in ((lambda v: self.attention(v, at + "self_attn."), p.attention_norms),
                             (lambda v: self.mlp(v, at + "mlp."), p.mlp_norms)):
                x = p.equation(x, f, [self.norm(at + n) for n in names], self.final_depth)
                seen.append(x)
        return seen, self.norm("model.norm")(x) if p.final else x

    def logits(self, hidden):
        return hidden @ self.weights["lm_head.weight"].T


def weight_shapes(placement, s, layers):
    """Every weight of a student but the embedding, by name."""
    p, shapes = PLACEMENTS[placement], {}
    for end, there in (("entry_norm", p.entry), ("norm", p.final)):
        if there:
            shapes[f"model.{end}.weight"] = (s.hidden,)
    for layer in range(layers):
        at = f"model.layers.{layer}."
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
        for name, rows in (("q_proj", q), ("k_proj", kv), ("v_proj", kv)):
            shapes[f"{at}self_attn.{name}.weight"] = (rows, s.hidden)
            if s.biases:
                shapes[f"{at}self_attn.{name}.bias"] = (rows,)
        shapes[f"{at}self_attn.o_proj.weight"] = (s.hidden, q)
        if s.head_norms:
            for name in ("q_norm", "k_norm"):
                shapes[f"{at}self_attn.{name}.weight"] = (s.head_dim,)
        for name in ("gate_proj", "up_proj"):
            shapes[f"{at}mlp.{name}.weight"] = (s.intermediate, s.hidden)
        shapes[f"{at}mlp.down_proj.weight"] = (s.hidden, s.intermediate)
        for name in p.attention_norms + p.mlp_norms:
            shapes[f"{at}{name}.weight"] = (s.hidden,)
    shapes["lm_head.weight"] = (s.vocabulary, s.hidden)
    return shapes


def losses(teacher_logits, student_logits, targets, tau):
    """Sums over tokens that have a target: tau^2 KL(teacher || student) at temperature tau, and the cross-entropy."""
    n = len(targets)
    p, log_p = (teacher_logits[:n] / tau).softmax(-1), (teacher_logits[:n] / tau).log_softmax(-1)
    log_q = (student_logits[:n] / tau).log_softmax(-1)
    kd = tau**2 * (p * (log_p - log_q)).sum()
    ce = -student_logits[:n].log_softmax(-1)[torch.arange(n), targets].sum()
    return kd, ce


def batch_losses(student, teacher_logits, documents, active, tau):
    """Means over the targets of the whole batch. A document's targets are its own next tokens; the last has none."""
    kd, ce, count = 0.0, 0.0, 0
    for document, answers in zip(documents, teacher_logits):
        _, hidden = student.states(document, active)
        own = losses(answers, student.logits(hidden), document[1:], tau)
        kd, ce, count = kd + own[0], ce + own[1], count + len(document) - 1
    return kd / count, ce / count


def learning_rate(update, total, warmup, peak, minimum):
    """Linear warmup to the peak, half a cosine to the minimum. The paper gives the two rates and the warmup's length;
    that updates count from 1, that the update after the warmup stands at the peak and that the last one stands at the
    minimum are the library's words (train/learning_rate.hpp)."""
    if update <= warmup:
        return peak * update / warmup
    done = (update - warmup - 1) / max(1, total - warmup - 1)
    return minimum + (peak - minimum) * (1 + math.cos(math.pi * done)) / 2


def batches_of(documents, capacity):
    """Whole documents, in order, up to `capacity` tokens a batch."""
    batch, size = [], 0
    for document in documents:
        if size + len(document) > capacity:
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += len(document)
    yield batch


def run(student, teacher, documents, validation, recipe):
    """Growth by one layer a phase: `steps` updates each, a fresh optimizer and learning rate in each, the data going on.
    Returns a record a step, and the validation losses at the end of each phase."""
    steps, evaluations = [], []
    batches = batches_of(documents, recipe["batch_tokens"])
    names = list(student.weights)
    for phase in range(recipe["phases"]):
        active = phase + 1
        active_names = [n for n in names
                        if not n.startswith("model.layers.") or int(n.split(".")[2]) < active]
        for name in active_names:
            student.weights[name].requires_grad_(True)
        vectors = [n for n in active_names if n.endswith(".bias") or "norm" in n]
        matrices = [n for n in active_names if n not in vectors]
        optimizer = torch.optim.AdamW(
            [{"params": [student.weights[n] for n in matrices], "weight_decay": recipe["weight_decay"]},
             {"params": [student.weights[n] for n in vectors], "weight_decay": 0.0}],
            lr=recipe["peak"], betas=(recipe["beta1"], recipe["beta2"]), eps=recipe["epsilon"])
        for update in range(1, recipe["steps"] + 1):
            batch = next(batches)
            rate = learning_rate(update, recipe["steps"], recipe["warmup"], recipe["peak"], recipe["minimum"])
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            answers = [teacher(d) for d in batch]
            kd, ce = batch_losses(student, answers, batch, active, recipe["temperature"])
            loss = recipe["alpha"] * kd + recipe["gamma"] * ce
            loss.backward()
            # Not clip_grad_norm_, which divides by the norm + 1e-6.
            norm = math.sqrt(sum(student.weights[n].grad.square().sum().item() for n in active_names))
            scale = min(1.0, recipe["clip"] / norm)
            for name in active_names:
                student.weights[name].grad.mul_(scale)
            optimizer.step()
            steps.append({"loss": loss.item(), "kd": kd.item(), "ce": ce.item(), "learning_rate": rate,
                          "gradient_norm": norm, "clip_scale": scale, "tokens": sum(map(len, batch)),
                          "targets": sum(len(d) - 1 for d in batch)})
        with torch.no_grad():
            kd, ce = batch_losses(student, [teacher(d) for d in validation], validation, active, recipe["temperature"])
        evaluations.append({"validation_kd": kd.item(), "validation_ce": ce.item()})
    return steps, evaluations

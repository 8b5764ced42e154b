"""Tiny random models of Hugging Face's `transformers`, saved by it and run by it, in double precision throughout."""
import contextlib
import zlib

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM

from students import Shape

LENGTHS = (6, 1, 4, 2, 7)

# No two sizes equal where a mix-up could hide; head_dim is not hidden / heads in qwen3, and each has its own dtype.
MODELS = {
    "qwen3": dict(model_type="qwen3", hidden_size=48, num_attention_heads=6, num_key_value_heads=2, head_dim=16,
                  intermediate_size=44, num_hidden_layers=3, vocab_size=97, rms_norm_eps=1e-6, tie_word_embeddings=False,
                  rope_parameters={"rope_type": "default", "rope_theta": 1e6}, dtype="bfloat16"),
    "llama": dict(model_type="llama", hidden_size=36, num_attention_heads=3, num_key_value_heads=1, intermediate_size=52,
                  num_hidden_layers=3, vocab_size=61, rms_norm_eps=1e-5, tie_word_embeddings=True,
                  rope_parameters={"rope_type": "default", "rope_theta": 1e4}, dtype="float32"),
    # A base this small turns even the last wave within a document; else a key's bias would hardly have a gradient.
    "qwen2": dict(model_type="qwen2", hidden_size=24, num_attention_heads=3, num_key_value_heads=1, intermediate_size=30,
                  num_hidden_layers=2, vocab_size=41, rms_norm_eps=1e-6, tie_word_embeddings=True,
                  rope_parameters={"rope_type": "default", "rope_theta": 10.0}, dtype="bfloat16"),
    # In 32 positions wave 0 turns more than 4 times, wave 1 between 1 and 4, waves 2 and 3 less than once.
    "llama3": dict(model_type="llama", hidden_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                   intermediate_size=28, num_hidden_layers=2, vocab_size=43, rms_norm_eps=1e-5, tie_word_embeddings=False,
                   rope_parameters={"rope_type": "llama3", "rope_theta": 30.0, "factor": 8.0, "low_freq_factor": 1.0,
                                    "high_freq_factor": 4.0, "original_max_position_embeddings": 32}, dtype="float16"),
}


def drawn(purpose, name, shape):
    """Normal numbers by name: matrices at deviation 0.2, biases at 0.3, gains around 1."""
    numbers = np.random.default_rng([zlib.crc32(purpose.encode()), zlib.crc32(name.encode())]).standard_normal(shape)
    if "norm" in name:
        return torch.from_numpy(1 + 0.2 * numbers)
    return torch.from_numpy((0.3 if name.endswith(".bias") else 0.2) * numbers)


def drawn_documents(purpose, lengths, vocabulary):
    random = np.random.default_rng(zlib.crc32(purpose.encode()))
    return [torch.from_numpy(random.integers(0, vocabulary, n)) for n in lengths]


def save(name, folder):
    """A directory as save_pretrained writes it."""
    options = dict(MODELS[name])
    dtype = getattr(torch, options.pop("dtype"))
    config = transformers.AutoConfig.for_model(options.pop("model_type"), max_position_embeddings=64, bos_token_id=1,
                                               eos_token_id=2, pad_token_id=0, **options)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight, tensor in model.named_parameters():
            tensor.copy_(drawn(name, weight, tuple(tensor.shape)))
    model.to(dtype).save_pretrained(folder)


class Double:
    """`torch`, with double where code says single: transformers computes norms, angles and softmax in float32."""
    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def in_double():
    from transformers import modeling_rope_utils
    from transformers.models.llama import modeling_llama
    from transformers.models.qwen2 import modeling_qwen2
    from transformers.models.qwen3 import modeling_qwen3
    modules = (modeling_rope_utils, modeling_llama, modeling_qwen2, modeling_qwen3)
    for module in modules:
        assert module.torch is torch
        module.torch = Double()
    try:
        yield
    finally:
        for module in modules:
            module.torch = torch


class Teacher:
    def __init__(self, folder):
        with in_double():
            self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
        self.single = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        c = self.model.config
        rope = dict(c.rope_parameters)
        self.shape = Shape(c.hidden_size, c.intermediate_size, c.num_attention_heads, c.num_key_value_heads,
                           getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads, c.vocab_size,
                           c.rms_norm_eps, rope["rope_theta"], head_norms=c.model_type == "qwen3",
                           biases=c.model_type == "qwen2", scaling=rope if rope["rope_type"] == "llama3" else None)
        for weight in self.model.parameters():
            weight.requires_grad_(False)

    def logits(self, document):
        """[T, V], one document alone; as transformers is, in single precision, it must say nearly the same."""
        with in_double(), torch.no_grad():
            answer = self.model(document[None]).logits[0]
        with torch.no_grad():
            plain = self.single(document[None]).logits[0]
        assert answer.dtype == torch.float64 and (answer - plain).norm() < 1e-5 * answer.norm()
        return answer

    def states(self, document):
        """The residual stream before the first layer and after each sublayer, and what the head reads."""
        seen, hooks, body = [], [], self.model.model
        hooks.append(body.embed_tokens.register_forward_hook(lambda m, i, out: seen.append(out[0])))
        for layer in body.layers:
            hooks.append(layer.post_attention_layernorm.register_forward_pre_hook(lambda m, i: seen.append(i[0][0])))
            hooks.append(layer.register_forward_hook(
                lambda m, i, out: seen.append((out[0] if isinstance(out, tuple) else out)[0])))
        hooks.append(body.norm.register_forward_hook(lambda m, i, out: seen.append(out[0])))
        self.logits(document)
        for hook in hooks:
            hook.remove()
        assert all(s.dtype == torch.float64 and s.shape == seen[0].shape for s in seen)
        return seen[:-1], seen[-1]

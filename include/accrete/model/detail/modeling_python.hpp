#pragma once

namespace accrete::inline v0::model::detail {

/// What stands before the generated part of modeling_accrete.py: configuration, norms, attention, MLP.
inline constexpr char const* python_before = R"py(import torch
from torch import nn
from torch.nn import functional
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast


CACHE_FIELD = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"


class AccreteConfig(PretrainedConfig):
    model_type = "accrete"
    keys_to_ignore_at_inference = ["past_key_values"]


def unit(x, eps):
    """Root mean square 1 per token, in f32 as every statistic here."""
    wide = x if x.dtype == torch.float64 else x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return self.weight * unit(x, self.eps)


def rotate(x, cosines, sines):
    """Half split: pairs (i, i + head_dim / 2). x [batch, heads, T, head_dim], tables [batch, T, head_dim / 2]."""
    cosines, sines = cosines.unsqueeze(1), sines.unsqueeze(1)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)


class Attention(nn.Module):
    """Grouped-query attention, causal; norms of q, k and v per head where the model has them."""

    def __init__(self, config, index):
        super().__init__()
        self.index = index
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = size = config.head_dim
        width, bias = config.hidden_size, config.qkv_bias
        self.q_proj = nn.Linear(width, self.heads * size, bias=bias)
        self.k_proj = nn.Linear(width, self.kv_heads * size, bias=bias)
        self.v_proj = nn.Linear(width, self.kv_heads * size, bias=bias)
        self.o_proj = nn.Linear(self.heads * size, width, bias=config.output_bias)
        for name in config.head_norms:
            setattr(self, name + "_norm", RMSNorm(size, config.rms_norm_eps))
        self.head_norms = config.head_norms

    def forward(self, x, context):
        batch, length, _ = x.shape
        heads = {}
        for name, count in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads)):
            h = getattr(self, name + "_proj")(x).view(batch, length, count, self.head_dim)
            if name in self.head_norms:
                h = getattr(self, name + "_norm")(h)
            heads[name] = h.transpose(1, 2)
        q = rotate(heads["q"], context.cosines, context.sines)
        k = rotate(heads["k"], context.cosines, context.sines)
        v = heads["v"]
        if context.cache is not None:
            k, v = context.cache.update(k, v, self.index)
        repeats = self.heads // self.kv_heads  # query head j reads key head j // repeats
        k, v = k.repeat_interleave(repeats, dim=1), v.repeat_interleave(repeats, dim=1)
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=context.mask)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Context:
    """What the attention of every layer reads in one call."""

    def __init__(self, cosines, sines, mask, cache):
        self.cosines, self.sines, self.mask, self.cache = cosines, sines, mask, cache


class DecoderLayer(nn.Module):
    """Sublayers, norms and constants; the equation is the subclass'."""

    norms = ()

    def __init__(self, config, index):
        super().__init__()
        self.eps = config.rms_norm_eps
        self.self_attn = Attention(config, index)
        self.mlp = MLP(config)
        for name in self.norms:
            setattr(self, name, RMSNorm(config.hidden_size, self.eps))
        for k, value in enumerate(CONSTANTS[index]):
            setattr(self, f"c{k}", value)

    def forward(self, context, *streams):
        out = self.equation(lambda x: self.self_attn(x, context), self.mlp, *streams)
        return out if isinstance(out, tuple) else (out,)


)py";

/// What stands behind it: the stack between its ends, and the head.
inline constexpr char const* python_after = R"py(

class AccreteModel(nn.Module, Ends):
    def __init__(self, config):
        super().__init__()
        self.eps = config.rms_norm_eps
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            LAYERS[kind](config, index) for index, kind in enumerate(KINDS)
        )
        for name in self.end_norms:
            setattr(self, name, RMSNorm(config.hidden_size, self.eps))

    def forward(self, embedded, context):
        streams = self.entry(embedded)
        streams = streams if isinstance(streams, tuple) else (streams,) * NUM_STREAMS
        for layer in self.layers:
            streams = layer(context, *streams)
        return self.readout(*streams[:NUM_READ])


class AccreteForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = AccreteConfig
    base_model_prefix = "model"
    _no_split_modules = ["DecoderLayer"]

    def __init__(self, config):
        super().__init__(config)
        self.model = AccreteModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def set_input_embeddings(self, value):
        self.model.embed_tokens = value

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, value):
        self.lm_head = value

    def rotary_tables(self, positions, dtype):
        exact = torch.float64 if dtype == torch.float64 else torch.float32
        inverse = torch.tensor(self.config.rotary_inv_freq, dtype=torch.float64, device=positions.device)
        angles = positions.to(torch.float64)[:, :, None] * inverse
        return angles.cos().to(exact).to(dtype), angles.sin().to(exact).to(dtype)

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, cache=None,
                inputs_embeds=None, labels=None, use_cache=None, logits_to_keep=0, **unused):
        cache = past_key_values if cache is None else cache  # its name changed in transformers 5
        if inputs_embeds is None:
            inputs_embeds = self.model.embed_tokens(input_ids)
        batch, length, _ = inputs_embeds.shape
        if use_cache and cache is None:
            cache = DynamicCache(config=self.config)
        seen = cache.get_seq_length() if cache is not None else 0
        device = inputs_embeds.device
        if position_ids is None:
            if attention_mask is not None and attention_mask.dim() == 2:
                position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]
            else:
                position_ids = torch.arange(seen, seen + length, device=device)[None]
        rows = torch.arange(seen, seen + length, device=device)[:, None]
        columns = torch.arange(seen + length, device=device)[None]
        mask = (columns <= rows)[None, None]
        if attention_mask is not None and attention_mask.dim() == 2:
            real = attention_mask[:, None, None, : seen + length].bool()
            mask = (mask & real) | (columns == rows)[None, None]  # no row without any column
        cosines, sines = self.rotary_tables(position_ids.expand(batch, -1), inputs_embeds.dtype)
        context = Context(cosines, sines, mask, cache)
        hidden = self.model(inputs_embeds, context)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) and logits_to_keep else slice(None)
        logits = self.lm_head(hidden[:, kept])
        loss = None
        if labels is not None:
            loss = functional.cross_entropy(
                logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten().to(device), ignore_index=-100
            )
        return CausalLMOutputWithPast(loss=loss, logits=logits, **{CACHE_FIELD: cache})
)py";

}  // namespace accrete::inline v0::model::detail

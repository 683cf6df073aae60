#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Families, heads, ties, depths and features crossed: more models than tests/reference/models keeps.

    python3 tests/reference/make_cross.py tests/reference/models
    build/release/bin/train_test --gtest_filter='Models/Reference.F32*:Models/Reference.Bf16*'
    git clean -fd tests/reference/models

They are made as make_models.py makes its own, beside them, looked at once and thrown away. Settings are named as older
transformers name them. The AdamW step is left out: the first one goes by a gradient's sign, and among so many elements
there are gradients smaller than rounding. Made and passed with transformers 4.57 on torch 1.13, which it had to be
patched for.
"""
import sys

from make_models import FALCON, GEMMA2, GEMMA3, LONGROPE, make_all, small

HEADS = {
    "3h3k": dict(num_attention_heads=3, num_key_value_heads=3, hidden_size=24),
    "5h1k": dict(num_attention_heads=5, num_key_value_heads=1, hidden_size=40),
    "6h2k": dict(num_attention_heads=6, num_key_value_heads=2, hidden_size=48),
    "7h7k": dict(num_attention_heads=7, num_key_value_heads=7, hidden_size=56),
}
YARN = dict(rope_type="yarn", original_max_position_embeddings=16)
ROPES = {
    "linear": dict(rope_type="linear", factor=3.0),
    "dynamic": dict(rope_type="dynamic", factor=2.0),
    "yarn": dict(YARN, factor=4.0),
    "yarn-betas": dict(YARN, factor=2.5, beta_fast=8, beta_slow=2),
    "yarn-attention": dict(YARN, factor=4.0, attention_factor=0.8),
    "yarn-mscale": dict(YARN, factor=4.0, mscale=0.7, mscale_all_dim=1.3),
    "yarn-untruncated": dict(YARN, factor=4.0, truncate=False),
    "llama3": dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=16),
    "longrope": dict(rope_type="longrope", original_max_position_embeddings=16, **LONGROPE),
}
OPT = dict(model_type="opt", vocab_size=67, hidden_size=32, word_embed_proj_dim=32, ffn_dim=44, num_attention_heads=4,
           num_hidden_layers=2, max_position_embeddings=64, dropout=0.0, pad_token_id=1, bos_token_id=2, eos_token_id=2)
TWO_THETAS = dict(rope_theta=1e5, rope_local_base_freq=1e4)


def crossed(idx, heads, tied, layers):
    """Every family with these heads; its features follow from the place in the cross."""
    ends = dict(tie_word_embeddings=tied, num_hidden_layers=layers)
    both = {**heads, **ends}
    yield "llama", small(model_type="llama", **both)
    yield "mistral", small(model_type="mistral", sliding_window=[None, 5, 3, 11][idx], **both)
    yield "qwen2", small(model_type="qwen2", **both)
    yield "qwen3", small(model_type="qwen3", head_dim=[8, 10, 6, 8][idx], **both)
    yield "phi3", small(model_type="phi3", sliding_window=[None, 7, None, 4][idx], **both)
    yield "gemma2", small(**{**GEMMA2, **both}, attn_logit_softcapping=[None, 5.0][idx % 2],
                          final_logit_softcapping=[3.0, None][(idx + tied) % 2])
    kinds = ["sliding_attention", "full_attention", "full_attention"]
    yield "gemma3", small(**{**GEMMA3, **both, "layer_types": kinds[:layers]}, **TWO_THETAS)
    width = dict(hidden_size=heads["hidden_size"], num_attention_heads=heads["num_attention_heads"])
    yield "opt", {**OPT, **width, **ends, "word_embed_proj_dim": heads["hidden_size"]}
    falcon = {**FALCON, **width, **ends}
    yield "falcon-one-kv", dict(falcon, multi_query=True, parallel_attn=True, new_decoder_architecture=False)
    yield "falcon-new", dict(falcon, num_kv_heads=heads["num_key_value_heads"], new_decoder_architecture=True,
                             num_ln_in_parallel_attn=1 + tied)
    yield "falcon-all-kv", dict(falcon, multi_query=False, parallel_attn=bool(idx % 2), new_decoder_architecture=False,
                                bias=tied)


def features():
    """One at a time, on the family's usual heads."""
    llama = small(model_type="llama", num_key_value_heads=2)
    for activation in ("silu", "gelu", "gelu_pytorch_tanh", "relu"):
        yield f"llama-{activation}", dict(llama, hidden_act=activation)
    yield "llama-attention-bias", dict(llama, attention_bias=True)
    yield "llama-mlp-bias", dict(llama, mlp_bias=True)
    yield "llama-norm-eps", dict(llama, rms_norm_eps=1e-2, rope_theta=77.0)
    yield "mistral-gelu", small(model_type="mistral", num_key_value_heads=2, hidden_act="gelu", sliding_window=4)
    windows = dict(num_key_value_heads=2, use_sliding_window=True, sliding_window=5)
    yield "qwen2-windows", small(model_type="qwen2", max_window_layers=0, **windows)
    yield "qwen3-window", small(model_type="qwen3", head_dim=8, max_window_layers=1, **{**windows, "num_hidden_layers": 3})
    yield "gemma2-bias", small(**GEMMA2, attention_bias=True)
    yield "gemma2-gelu", small(**{**GEMMA2, "hidden_activation": "gelu"})
    yield "gemma3-bias", small(**GEMMA3, attention_bias=True, **TWO_THETAS)
    yield "gemma3-logit-cap", small(**GEMMA3, final_logit_softcapping=3.0, **TWO_THETAS)
    yield "gemma3-attention-cap", small(**GEMMA3, attn_logit_softcapping=2.0, **TWO_THETAS)
    yield "opt-gelu", dict(OPT, activation_function="gelu")
    for bias in (False, True):
        for name, layout in {
            "one-kv": dict(multi_query=True, parallel_attn=True, new_decoder_architecture=False),
            "one-kv-serial": dict(multi_query=True, parallel_attn=False, new_decoder_architecture=False),
            "two-norms": dict(num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=2),
            "one-norm": dict(num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1),
        }.items():
            yield f"falcon-{name}-{'biases' if bias else 'plain'}", dict(FALCON, bias=bias, **layout)
    yield "falcon-relu", dict(FALCON, multi_query=True, parallel_attn=True, new_decoder_architecture=False,
                              activation="relu")


def scaled_ropes():
    # One document where what a position's rope is follows from the text's length.
    lengths = {"dynamic": dict(documents=[37], max_position_embeddings=16),
               "longrope": dict(documents=[37], original_max_position_embeddings=16)}
    for name, rope in ROPES.items():
        for family, settings in {"llama": {}, "mistral": dict(head_dim=8, sliding_window=None), "qwen2": {},
                                 "qwen3": dict(head_dim=8)}.items():
            yield f"{family}-rope-{name}", {**small(model_type=family, num_key_value_heads=2, rope_scaling=dict(rope),
                                                    **settings), **lengths.get(name, {})}
    for name in ("linear", "yarn", "llama3"):
        yield f"gemma2-rope-{name}", small(**GEMMA2, rope_scaling=dict(ROPES[name]))
        yield f"gemma3-rope-{name}", small(**GEMMA3, **TWO_THETAS, rope_scaling=dict(ROPES[name]))
        yield f"falcon-rope-{name}", dict(FALCON, multi_query=True, parallel_attn=True, new_decoder_architecture=False,
                                          rope_scaling=dict(ROPES[name]))
    for original in (16, 64):
        for share in (1.0, 0.75):
            factors = {key: value[:round(4 * share)] for key, value in LONGROPE.items()}
            yield f"phi3-longrope-{original}-{share}", small(
                model_type="phi3", num_key_value_heads=2, sliding_window=None, partial_rotary_factor=share,
                max_position_embeddings=256, original_max_position_embeddings=original,
                rope_scaling=dict(type="longrope", **factors), documents=[37])


def cases():
    for idx, (name, heads) in enumerate(HEADS.items()):
        for tied in (False, True):
            layers = 1 + (idx + tied) % 3
            for family, settings in crossed(idx, heads, tied, layers):
                yield f"{family}-{name}-{'tied' if tied else 'untied'}-{layers}", settings
    yield from features()
    yield from scaled_ropes()


if __name__ == "__main__":
    make_all(dict(cases()), sys.argv[1], sys.argv[2:])

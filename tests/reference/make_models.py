#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the reference fixtures of tests/reference/models with Hugging Face transformers.

    python3 tests/reference/make_models.py OUT [CASE ...]

Every case is a folder: a tiny random model as save_pretrained() leaves it (config.json, model.safetensors in bf16), and
expected.safetensors with what transformers computes from it in fp32 on the CPU, eager attention:

    input_ids, labels   (tokens) i32, documents one after the other; labels are shifted already: labels[i] is what
                        token i should predict, -100 where nothing is
    documents           (documents) i32, the length of each; attention and positions start anew in each
    logits              (tokens, vocab)
    loss                (1), mean over the labels that are not -100
    grad.NAME           the gradient of that loss
    step.NAME           the weight after one AdamW step

and bf16_error.json: how far transformers in bf16 is from transformers in fp32: the norm of the difference over the norm,
both taken over many random batches together, since one draw of rounding errors says little.
Made with transformers 5.17, torch 2.11. Weights are exact in bf16, so both precisions start from the same ones.
"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

ADAMW = dict(lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
ERROR_BATCHES = 64
DOCUMENTS = [29, 1, 11]
SMALL = dict(vocab_size=67, hidden_size=32, intermediate_size=52, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def rope(kind="default", theta=10000.0, **settings):
    return dict(rope_type=kind, rope_theta=theta, **settings)


def small(**changes):
    return {**SMALL, **changes}


GEMMA2 = dict(model_type="gemma2", head_dim=8, num_key_value_heads=2, query_pre_attn_scalar=20, sliding_window=6,
              hidden_activation="gelu_pytorch_tanh")
GEMMA3 = dict(model_type="gemma3_text", head_dim=8, num_key_value_heads=1, query_pre_attn_scalar=12, sliding_window=5,
              num_hidden_layers=3, layer_types=["sliding_attention", "full_attention", "sliding_attention"])
FALCON = dict(model_type="falcon", vocab_size=67, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, alibi=False,
              bias=False, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, hidden_dropout=0.0,
              attention_dropout=0.0)
LONGROPE = dict(short_factor=[1.0, 1.1, 1.3, 1.7], long_factor=[1.5, 2.0, 3.5, 7.0])

CASES = {
    "llama": small(model_type="llama", num_key_value_heads=4, num_hidden_layers=3, tie_word_embeddings=False),
    "llama-biases-tied": small(model_type="llama", hidden_size=36, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
                               attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "llama-three-heads": small(model_type="llama", hidden_size=24, num_attention_heads=3, num_key_value_heads=1,
                               num_hidden_layers=1, vocab_size=53),
    "llama-rope-llama3": small(model_type="llama", num_key_value_heads=2, max_position_embeddings=128,
                               rope_parameters=rope("llama3", 500.0, factor=8.0, low_freq_factor=1.0,
                                                    high_freq_factor=4.0, original_max_position_embeddings=32)),
    "llama-rope-linear": small(model_type="llama", num_key_value_heads=2, rope_parameters=rope("linear", factor=4.0)),
    "llama-rope-dynamic": small(model_type="llama", num_key_value_heads=2, max_position_embeddings=16,
                                rope_parameters=rope("dynamic", factor=2.0), documents=[37]),
    "llama-rope-yarn": small(model_type="llama", num_key_value_heads=2, max_position_embeddings=64,
                             rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16)),
    "mistral-window": small(model_type="mistral", num_key_value_heads=2, sliding_window=8, num_hidden_layers=3),
    "mistral-head-dim": small(model_type="mistral", num_key_value_heads=1, head_dim=12, sliding_window=None,
                              rope_parameters=rope(theta=1e6)),
    "qwen2": small(model_type="qwen2", num_key_value_heads=2, tie_word_embeddings=False),
    "qwen2-window-tied": small(model_type="qwen2", num_key_value_heads=1, num_hidden_layers=3, tie_word_embeddings=True,
                               use_sliding_window=True, sliding_window=7, max_window_layers=1),
    "qwen3": small(model_type="qwen3", num_key_value_heads=2, head_dim=16, tie_word_embeddings=False),
    "qwen3-biases-tied": small(model_type="qwen3", num_attention_heads=3, num_key_value_heads=3, head_dim=10,
                               attention_bias=True, tie_word_embeddings=True, hidden_size=30),
    "gemma2": small(**GEMMA2, attn_logit_softcapping=5.0, final_logit_softcapping=3.0, num_hidden_layers=3),
    "gemma2-no-caps": small(**GEMMA2, attn_logit_softcapping=None, final_logit_softcapping=None),
    "gemma3": small(**{**GEMMA3, "rope_parameters": {"full_attention": rope(theta=1e6),
                                                     "sliding_attention": rope(theta=1e4)}}),
    "gemma3-rope-linear": small(**{**GEMMA3, "num_hidden_layers": 2,
                                   "layer_types": ["sliding_attention", "full_attention"],
                                   "rope_parameters": {"full_attention": rope("linear", 1e5, factor=8.0),
                                                       "sliding_attention": rope(theta=1e4)}}),
    "phi3-window": small(model_type="phi3", num_key_value_heads=2, sliding_window=9),
    "phi3-longrope-short": small(model_type="phi3", num_key_value_heads=4, sliding_window=None,
                                 max_position_embeddings=256, original_max_position_embeddings=64,
                                 rope_parameters=rope("longrope", original_max_position_embeddings=64, **LONGROPE)),
    "phi3-longrope-long": small(model_type="phi3", num_key_value_heads=2, sliding_window=None,
                                max_position_embeddings=256, original_max_position_embeddings=16,
                                rope_parameters=rope("longrope", original_max_position_embeddings=16, **LONGROPE),
                                documents=[37]),
    "phi3-partial-rotary-tied": small(model_type="phi3", num_key_value_heads=2, sliding_window=None,
                                      tie_word_embeddings=True,
                                      rope_parameters=rope(partial_rotary_factor=0.75), partial_rotary_factor=0.75),
    "opt": dict(model_type="opt", vocab_size=67, hidden_size=32, ffn_dim=52, num_hidden_layers=2, num_attention_heads=4,
                max_position_embeddings=64, word_embed_proj_dim=32, dropout=0.0, pad_token_id=1, bos_token_id=2,
                eos_token_id=2),
    "opt-no-biases": dict(model_type="opt", vocab_size=53, hidden_size=24, ffn_dim=40, num_hidden_layers=1,
                          num_attention_heads=3, max_position_embeddings=64, word_embed_proj_dim=24, dropout=0.0,
                          enable_bias=False, pad_token_id=1, bos_token_id=2, eos_token_id=2),
    "falcon-7b": dict(**FALCON, multi_query=True, parallel_attn=True, new_decoder_architecture=False),
    "falcon-40b": dict(**FALCON, num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=2),
    "falcon-180b": {**FALCON, "num_attention_heads": 6, "hidden_size": 48, "num_hidden_layers": 1, "num_kv_heads": 3,
                    "new_decoder_architecture": True, "num_ln_in_parallel_attn": 2, "tie_word_embeddings": False},
    "falcon-11b": dict(**FALCON, num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1),
    "falcon-serial-biases": {**FALCON, "bias": True, "multi_query": True, "parallel_attn": False,
                             "new_decoder_architecture": False},
    "falcon-heads": {**FALCON, "multi_query": False, "parallel_attn": True, "new_decoder_architecture": False},
    # Documents on both sides of the original context.
    "llama-rope-dynamic-mixed": small(model_type="llama", num_key_value_heads=2, max_position_embeddings=16,
                                      rope_parameters=rope("dynamic", factor=2.0), documents=[29, 1, 11]),
    "phi3-longrope-mixed": small(model_type="phi3", num_key_value_heads=2, sliding_window=None,
                                 max_position_embeddings=256, original_max_position_embeddings=16,
                                 rope_parameters=rope("longrope", original_max_position_embeddings=16, **LONGROPE),
                                 documents=[29, 1, 11]),
}


def randomise(model, seed):
    """Weights large enough that every feature shows in the logits, and exact in bf16."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if "norm" in name or ".ln_" in name:
                centre = 0.0 if model.config.model_type.startswith("gemma") or name.endswith("bias") else 1.0
                value = centre + 0.2 * noise
            elif name.endswith("bias"):
                value = 0.2 * noise
            else:
                value = noise * (0.9 if "embed" in name else 1.2) / weight.shape[-1] ** 0.5
            weight.copy_(value.to(torch.bfloat16).to(weight.dtype))


def make_batch(config, lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    ids, labels = [], []
    for idx, length in enumerate(lengths):
        tokens = torch.randint(3, config.vocab_size, (length,), generator=generator)
        target = torch.cat([tokens[1:], torch.tensor([-100])])
        if idx == 0:
            target[:4] = -100  # a prompt
        ids.append(tokens)
        labels.append(target)
    return ids, labels


def run(model, ids, labels):
    """Logits, loss, gradients of documents run one by one: the truth that packing must reproduce."""
    device = next(model.parameters()).device
    model.zero_grad(set_to_none=True)
    count = sum(int((target != -100).sum()) for target in labels)
    logits, total = [], 0.0
    for tokens, target in zip(ids, labels):
        out = model(input_ids=tokens.to(device)[None], use_cache=False).logits[0]
        logits.append(out.detach().float().cpu())
        if (target != -100).any():
            loss = torch.nn.functional.cross_entropy(out.float(), target.to(device), reduction="sum") / count
            loss.backward()
            total += float(loss.detach())
    grads = {name: weight.grad.detach().float().cpu() for name, weight in model.named_parameters()}
    return torch.cat(logits), total, grads


def named_results(model, ids, labels):
    logits, loss, grads = run(model, ids, labels)
    return {"logits": logits, "loss": torch.tensor([loss]), **{"grad." + key: value for key, value in grads.items()}}


def own_loss_agrees(model, ids, labels):
    """transformers' own loss, to be sure that ours is the same."""
    target = torch.cat([torch.tensor([-100]), labels[0][:-1]])
    loss = model(input_ids=ids[0][None], labels=target[None], use_cache=False).loss
    out = model(input_ids=ids[0][None], use_cache=False).logits[0]
    ours = torch.nn.functional.cross_entropy(out.float(), labels[0])
    assert abs(float(loss) - float(ours)) < 1e-5, (float(loss), float(ours))


def make(name, settings, seed, out_dir):
    settings = dict(settings)
    lengths = settings.pop("documents", DOCUMENTS)
    kind = settings.pop("model_type")
    config = AutoConfig.for_model(kind, **settings)

    def build(dtype, attention):
        torch.manual_seed(seed)
        config.dtype = torch.float32  # saving sets it to what was saved, and buffers would be made in that
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).float().eval()
        randomise(model, seed)
        return model.to(dtype)

    folder = os.path.join(out_dir, name)
    build(torch.bfloat16, "eager").save_pretrained(folder)
    for extra in ("generation_config.json",):
        path = os.path.join(folder, extra)
        if os.path.exists(path):
            os.remove(path)

    model = build(torch.float32, "eager")
    ids, labels = make_batch(config, lengths, seed)
    own_loss_agrees(model, ids, labels)
    logits, loss, grads = run(model, ids, labels)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW, foreach=False)
    optimizer.step()
    tensors = {
        "input_ids": torch.cat(ids).to(torch.int32),
        "labels": torch.cat(labels).to(torch.int32),
        "documents": torch.tensor(lengths, dtype=torch.int32),
        "logits": logits,
        "loss": torch.tensor([loss], dtype=torch.float32),
    }
    for weight_name, weight in model.named_parameters():
        tensors["grad." + weight_name] = grads[weight_name]
        tensors["step." + weight_name] = weight.detach().clone()
    save_file({key: value.contiguous() for key, value in tensors.items()}, os.path.join(folder, "expected.safetensors"))

    differences, sizes = {}, {}
    model = build(torch.float32, "eager")
    low = build(torch.bfloat16, "eager")
    for batch_idx in range(ERROR_BATCHES):
        batch = make_batch(config, lengths, 100 * seed + batch_idx)
        truth, found = named_results(model, *batch), named_results(low, *batch)
        for key, value in truth.items():
            differences[key] = differences.get(key, 0.0) + float((found[key].double() - value.double()).square().sum())
            sizes[key] = sizes.get(key, 0.0) + float(value.double().square().sum())
    errors = {key: float(f"{(differences[key] / max(sizes[key], 1e-60)) ** 0.5:.5g}") for key in sizes}
    with open(os.path.join(folder, "bf16_error.json"), "w") as file:
        json.dump(errors, file, indent=0)
    print(f"{name:28} parameters {sum(p.numel() for p in model.parameters()):6} loss {loss:.5f} "
          f"bf16 logits {errors['logits']:.1e}")


def make_all(cases, out_dir, names):
    torch.use_deterministic_algorithms(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    print("transformers", transformers.__version__, "torch", torch.__version__)
    failed = []
    for name in names or cases:
        try:
            make(name, cases[name], 1000 + list(cases).index(name), out_dir)
        except Exception as error:  # one family's trouble must not cost the others
            failed.append(name)
            print(f"{name}: FAILED: {type(error).__name__}: {error}")
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")


if __name__ == "__main__":
    make_all(CASES, sys.argv[1], sys.argv[2:])

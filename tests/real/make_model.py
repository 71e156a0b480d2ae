"""Make tiny "playback" models: real architectures whose hand-set weights replay scripts.

usage: make_model.py qwen3 OUT_DIR | make_model.py qwen3_vl OUT_DIR

One layer. The residual stream has four blocks: one-hot of the current token,
script one-hot, key features, one-hot of the next token. The single useful
attention head looks up the strongest "go" token of the context (its value is
the script's id); each MLP unit recognises one (token, script) pair and writes
the next token of that script. lm_head reads the next-token block, plus noise
so that log probabilities look plausible.
The chat template puts the go token of the script named by the last "@name"
found in the messages (default: plain).
"""

# ruff: noqa: N803, N806 (the dimensions have the letters they have in every description of a transformer)

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from scripts import END, NEXT, SCRIPTS, is_loop
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

VISION = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<|vision_pad|>"]
MARK = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", END, *VISION, *MARK]
GO = [f"<|go_{n}|>" for n in SCRIPTS]


def octets(piece):
    return piece if isinstance(piece, bytes) else piece.encode()


def pieces():
    """Each piece of more than one byte, once: these become tokens beside the 256 bytes."""
    found = []
    for script in SCRIPTS.values():
        for piece in script:
            if piece is NEXT or is_loop(piece) or piece in SPECIAL:
                continue
            if len(octets(piece)) > 1 and octets(piece) not in found:
                found.append(octets(piece))
    return found


def byte_map():
    """GPT-2's printable stand-in for each byte."""
    bs = [*range(33, 127), *range(161, 173), *range(174, 256)]
    cs, n = bs[:], 0
    for b in range(256):
        if b not in bs:
            bs.append(b)
            cs.append(256 + n)
            n += 1
    return dict(zip(bs, map(chr, cs), strict=True))


BM = byte_map()


def spell(piece):
    return "".join(BM[x] for x in octets(piece))


TEMPLATE = r"""
{%- set ns = namespace(go='plain') -%}
{%- if tools %}
    {{- '<|im_start|>system\n# Tools\n\n<tools>' }}
    {%- for tool in tools %}{{ '\n' + (tool | tojson) }}{% endfor %}
    {{- '\n</tools>\n\nFor each call return <tool_call>\n' }}
    {{- '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set text = namespace(s='') %}
    {%- if message.content is string %}{% set text.s = message.content %}
    {%- elif message.content %}
        {%- for item in message.content %}
            {%- if item.type in ('image', 'image_url') %}
                {%- set text.s = text.s + '<|vision_start|><|image_pad|><|vision_end|>' %}
            {%- elif item.text is defined %}{% set text.s = text.s + item.text %}{% endif %}
        {%- endfor %}
    {%- endif %}
    {%- for name in NAMES %}{% if ('@' + name + '@') in text.s %}{% set ns.go = name %}{% endif %}{% endfor %}
    {{- '<|im_start|>' + message.role + '\n' + text.s }}
    {%- if message.tool_calls %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function %}{% set tool_call = tool_call.function %}{% endif %}
            {{- '\n<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' }}
            {{- tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {%- if ns.go == 'reasonopen' %}
        {{- '<|go_reasonopen|><|im_start|>assistant\n<think>\n' }}
    {%- elif enable_thinking is defined and enable_thinking is false %}
        {{- '<|im_start|>assistant\n<think>\n\n</think>\n\n<|go_' + ns.go + '|>' }}
    {%- else %}
        {{- '<|im_start|>assistant\n<|go_' + ns.go + '|>' }}
    {%- endif %}
{%- endif %}
""".strip().replace("NAMES", repr(list(SCRIPTS)))


def tokenizer():
    """The tokenizer, and the ids of its bytes and pieces by their spelling."""
    vocab = {}
    for b in range(256):
        vocab[BM[b]] = len(vocab)
    for piece in pieces():
        vocab.setdefault(spell(piece), len(vocab))
    tok = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    plain = [s for s in SPECIAL if s not in MARK]
    tok.add_special_tokens([AddedToken(s, special=True) for s in [*plain, *GO]])
    tok.add_tokens([AddedToken(s, special=False, normalized=False) for s in MARK])
    return tok, vocab


def program(tok, vocab):
    """The scripts as a table.

    pairs: (token, state) -> next token. go: token -> (state, level), for the tokens that start a state.
    """
    pairs, go, states = {}, {}, []
    for name, script in SCRIPTS.items():
        level, state = 1, len(states)
        states.append(name)
        start = tok.token_to_id(f"<|go_{name}|>")
        go[start] = (state, level)
        cur = start if name != "reasonopen" else vocab[BM[10]]
        ids = []
        for piece in script:
            if piece is NEXT:
                level += 1
                state = len(states)
                states.append(f"{name}+{level}")
                assert cur not in go, (name, cur)
                go[cur] = (state, level)
                continue
            if is_loop(piece):
                n = ids[int(piece[5:])]
            elif piece in SPECIAL:
                n = tok.token_to_id(piece)
            else:
                n = vocab[spell(piece)]
            assert pairs.get((cur, state), n) == n, (name, piece)
            pairs[(cur, state)] = n
            ids.append(n)
            cur = n
    # a switch token (level>1) must belong to one script only
    for t, (s, level) in go.items():
        if level > 1:
            base = states[s].split("+")[0]
            used = {states[st].split("+")[0] for (tk, st), n in pairs.items() if n == t}
            assert used == {base}, (t, used)
    return pairs, go, len(states)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def ones(n):
    return np.ones(n, np.float32)


def weights(V, pairs, go, S, rng):
    """The tensors by their name within the model, lm_head beside it, and the sizes that shape them."""
    L = 3
    assert S <= 64
    D = 2 * V + S + L + 1
    D = (D + 63) // 64 * 64
    T0, S0, L0, C0, N0 = 0, V, V + S, V + S + L, V + S + L + 1
    HD, H = 64, 1
    F = (len(pairs) + 63) // 64 * 64
    emb = zeros(V, D)
    for t in range(V):
        emb[t, T0 + t] = 1
        emb[t, C0] = 1
    for t, (_, level) in go.items():
        emb[t, L0 + level - 1] = 1
    q, k, v, o = zeros(H * HD, D), zeros(H * HD, D), zeros(H * HD, D), zeros(D, H * HD)
    low = [31, 30, 29]
    for i, d in enumerate(low):
        q[d, C0] = i + 1
        k[d, L0 + i] = 1
    for t, (s, _) in go.items():
        v[s, T0 + t] = 1
    for s in range(S):
        o[S0 + s, s] = 1 / np.sqrt(D / 3)
    gate, up, down = zeros(F, D), zeros(F, D), zeros(D, F)
    for u, ((t, s), n) in enumerate(pairs.items()):
        gate[u, T0 + t] = gate[u, S0 + s] = 20
        gate[u, C0] = -30
        up[u, C0] = 1
        down[N0 + n, u] = 1 / (10 * D / 3)
    head = zeros(V, D)
    head[:, T0 : T0 + V] = rng.normal(0, 0.08, (V, V))
    for n in range(V):
        head[n, N0 + n] = 12 / np.sqrt(D / 4)
    tensors = {
        "embed_tokens.weight": emb,
        "norm.weight": ones(D),
        "layers.0.input_layernorm.weight": ones(D),
        "layers.0.post_attention_layernorm.weight": ones(D),
        "layers.0.self_attn.q_proj.weight": q,
        "layers.0.self_attn.k_proj.weight": k,
        "layers.0.self_attn.v_proj.weight": v,
        "layers.0.self_attn.o_proj.weight": o,
        "layers.0.self_attn.q_norm.weight": ones(HD) * 20,
        "layers.0.self_attn.k_norm.weight": ones(HD),
        "layers.0.mlp.gate_proj.weight": gate,
        "layers.0.mlp.up_proj.weight": up,
        "layers.0.mlp.down_proj.weight": down,
    }
    sizes = {"hidden_size": D, "intermediate_size": F, "num_attention_heads": H, "head_dim": HD}
    return tensors, head, sizes


def main(kind, out):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    tok, vocab = tokenizer()
    tok.save(str(out / "tokenizer.json"))
    V = tok.get_vocab_size()
    pairs, go, S = program(tok, vocab)
    tensors, head, sizes = weights(V, pairs, go, S, np.random.default_rng(7))
    prefix = "model." if kind == "qwen3" else "model.language_model."
    w = {prefix + name: tensor for name, tensor in tensors.items()}
    w["lm_head.weight"] = head
    im_end, eot = tok.token_to_id(END), tok.token_to_id("<|endoftext|>")
    text = {
        "model_type": "qwen3",
        **sizes,
        "num_hidden_layers": 1,
        "num_key_value_heads": sizes["num_attention_heads"],
        "rms_norm_eps": 1e-6,
        "vocab_size": V,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": False,
        "rope_theta": 1e12,
        "hidden_act": "silu",
        "attention_bias": False,
        "bos_token_id": eot,
        "eos_token_id": im_end,
        "torch_dtype": "float32",
    }
    if kind == "qwen3":
        config = {"architectures": ["Qwen3ForCausalLM"], **text}
    else:
        import vlm_extra

        config = vlm_extra.config(text, tok, w, out)
    generation = {
        "bos_token_id": eot,
        "eos_token_id": [im_end, eot],
        "pad_token_id": eot,
        "do_sample": False,
    }
    tokens = {
        "tokenizer_class": "PreTrainedTokenizerFast" if kind == "qwen3" else "Qwen2Tokenizer",
        "eos_token": END,
        "pad_token": "<|endoftext|>",
        "model_max_length": 8192,
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE,
    }
    index = {"metadata": {}, "weight_map": dict.fromkeys(w, "model.safetensors")}
    (out / "config.json").write_text(json.dumps(config, indent=1))
    (out / "generation_config.json").write_text(json.dumps(generation))
    (out / "tokenizer_config.json").write_text(json.dumps(tokens))
    (out / "chat_template.jinja").write_text(TEMPLATE)
    (out / "model.safetensors.index.json").write_text(json.dumps(index))
    contiguous = {name: np.ascontiguousarray(tensor.astype(np.float32)) for name, tensor in w.items()}
    save_file(contiguous, str(out / "model.safetensors"), {"format": "pt"})
    print(kind, "V", V, "S", S, "D", sizes["hidden_size"], "pairs", len(pairs))


if __name__ == "__main__":
    main(*sys.argv[1:])

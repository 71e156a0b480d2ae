"""Vision part of the tiny Qwen3-VL: random weights.

The last projection is zeroed, so that image tokens pass through the text model without touching the playback.
"""

import json

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_vlm.models.qwen3_vl.config import VisionConfig
from mlx_vlm.models.qwen3_vl.vision import VisionModel

PATCH, MERGE = 16, 2


def config(text, tok, w, out):
    """The model's configuration. The tower goes into `w`, the image processor's settings into `out`."""
    vision = {
        "model_type": "qwen3_vl",
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 64,
        "out_hidden_size": text["hidden_size"],
        "num_heads": 2,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "in_channels": 3,
        "num_position_embeddings": 256,
        "deepstack_visual_indexes": [],
        "hidden_act": "gelu_pytorch_tanh",
        "initializer_range": 0.02,
    }
    tower = VisionModel(VisionConfig.from_dict(vision))
    for name, tensor in tree_flatten(tower.parameters()):
        array = np.array(tensor.astype(mx.float32))
        w["model.visual." + name] = np.zeros_like(array) if "merger.linear_fc2" in name else array
    processor = {
        "size": {"longest_edge": 65536, "shortest_edge": 1024},
        "patch_size": PATCH,
        "temporal_patch_size": 2,
        "merge_size": MERGE,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "processor_class": "Qwen3VLProcessor",
        "image_processor_type": "Qwen2VLImageProcessorFast",
    }
    (out / "preprocessor_config.json").write_text(json.dumps(processor))
    rope = {"rope_type": "default", "mrope_section": [12, 10, 10], "mrope_interleaved": True}
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "text_config": {**text, "model_type": "qwen3_vl_text", "rope_scaling": rope},
        "vision_config": vision,
        "image_token_id": tok.token_to_id("<|image_pad|>"),
        "video_token_id": tok.token_to_id("<|video_pad|>"),
        "vision_start_token_id": tok.token_to_id("<|vision_start|>"),
        "vision_end_token_id": tok.token_to_id("<|vision_end|>"),
        "tie_word_embeddings": False,
        "vocab_size": text["vocab_size"],
        "eos_token_id": [tok.token_to_id("<|im_end|>"), tok.token_to_id("<|endoftext|>")],
        "torch_dtype": "float32",
    }

"""Write the folder of a model with random weights, which a server can serve as any other.

python -m bench.serving.model_folder FOLDER --shape llama3_8b --device cuda

The tokenizer and the chat template are the bundled reader's. Its vocabulary is smaller than the
model's: the rows of the last layer beyond it are zero, so that a token beyond it is chosen only
where every logit is negative, and what is decoded is text that a client can count.

Beside the weights lies a head plan by which every other KV head streams, `half_streaming.json`: a
server takes it with LECTERN_HEADS=FOLDER/half_streaming.json, and no plan else.
"""

import argparse
import shutil
from pathlib import Path

import torch
from tokenizers import Tokenizer

from bench.random_llama import SHAPES, SPREAD, ModelShape, random_llama
from engine.model.head_plan import HeadPlan, write_plan
from reader import WEIGHTS

TINY = ModelShape(8192, 64, 128, 2, 4, 2)
COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)
CONTEXT_TOKENS = 262_144
SHARD = "2GB"
HALF_STREAMING = "half_streaming.json"
NUM_SINKS, WINDOW = 64, 256  # that a streaming head sees


def write_model_folder(
    folder: Path,
    shape: ModelShape,
    device: str,
    context_tokens: int = CONTEXT_TOKENS,
    spread: float = SPREAD,
) -> None:
    """Write configuration, random bf16 weights and tokenizer of a Llama, and a head plan for it.

    Args:
        folder: made if it is missing; files of the same names are replaced.
        device: where the weights are drawn; they are the same each time on one kind of device.
        context_tokens: the longest context of the model.
        spread: standard deviation of the weights.
    """
    model = random_llama(shape, context_tokens, device, spread=spread)
    known = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json")).get_vocab_size()
    with torch.inference_mode():
        model.lm_head.weight[known:] = 0.0
    model.config.bos_token_id, model.config.eos_token_id = 1, 0
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, max_shard_size=SHARD)
    for name in COPIED:
        shutil.copyfile(WEIGHTS / name, folder / name)
    heads = tuple(head % 2 == 0 for head in range(shape.kv_heads))
    plan = HeadPlan("file", (heads,) * shape.num_layers, NUM_SINKS, WINDOW)
    write_plan(plan, folder / HALF_STREAMING)


def main() -> None:
    """Write the folder and print its size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", choices=[*SHAPES, "tiny"], default="llama3_8b")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--context", type=int, default=CONTEXT_TOKENS)
    options = parser.parse_args()
    shape = TINY if options.shape == "tiny" else SHAPES[options.shape]
    write_model_folder(options.folder, shape, options.device, options.context)
    num_bytes = sum(path.stat().st_size for path in options.folder.iterdir())
    print(f"{options.folder}: {num_bytes / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()

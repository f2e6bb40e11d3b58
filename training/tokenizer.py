"""The reader's tokenizer: byte-level BPE of 8,192, digits one by one.

Every piece of text (document, question, answer) starts with a space for the model, put there by
the normaliser and taken away by the decoder: a name is the same tokens wherever it stands.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

VOCABULARY = 8192
DOCUMENT, QUESTION, ANSWER, END = "<|document|>", "<|question|>", "<|answer|>", "<|end|>"
SPECIAL_TOKENS = (END, DOCUMENT, QUESTION, ANSWER)
END_ID, DOCUMENT_ID, QUESTION_ID, ANSWER_ID = range(4)
_WORDS = r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'system' -%}<|document|>{{ message['content'] }}"
    "{%- elif message['role'] == 'user' -%}<|question|>{{ message['content'] }}"
    "{%- else -%}<|answer|>{{ message['content'] }}<|end|>{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|answer|>{%- endif -%}"
)


def train_tokenizer(texts: Iterable[str], vocabulary: int = VOCABULARY) -> Tokenizer:
    """Train on texts; special tokens take the first ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def without_prefix(tokenizer: Tokenizer) -> Tokenizer:
    """A copy that encodes text as it stands, for text in the middle of a document."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.normalizer = None
    return copy


def save_tokenizer(tokenizer: Tokenizer, folder: Path, context_length: int) -> None:
    """Write tokenizer.json, tokenizer_config.json and the chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": DOCUMENT,
        "eos_token": END,
        "pad_token": END,
        "clean_up_tokenization_spaces": False,
        "model_max_length": context_length,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)

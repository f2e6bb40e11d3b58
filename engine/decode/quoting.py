"""What quotes are decoded with: the model's tokens by their bytes, and documents asked about."""

import threading
import weakref
from collections import OrderedDict

from engine.decode.quotable_text import QuotableText
from engine.decode.quote_decoder import QuoteDecoder
from engine.decode.token_trie import TokenTrie
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from engine.model.token_bytes import token_bytes

MOST_TEXTS = 16  # that are kept; preparing one takes a few milliseconds for 16K tokens


class Quoting:
    """Makes the decoders of answers that quote; any thread may ask for one.

    The model's tokens are sorted when the first answer is asked for.

    Args:
        refusal: the sentence that says that a document holds no answer.
    """

    def __init__(self, model: LoadedModel, refusal: str) -> None:
        self._model, self.refusal = model, refusal
        self._lock = threading.Lock()
        self._trie: TokenTrie | None = None
        self._texts: OrderedDict[int, tuple[weakref.ref[DocumentCache], QuotableText]] = (
            OrderedDict()
        )

    def decoder(self, document: DocumentCache) -> QuoteDecoder:
        """Return the decoder of one answer about a document."""
        return QuoteDecoder(
            self._text_of(document), self.refusal, self._model.eos_ids, self._model.device
        )

    def _text_of(self, document: DocumentCache) -> QuotableText:
        key = id(document)
        with self._lock:
            if self._trie is None:
                self._trie = TokenTrie(token_bytes(self._model.tokenizer))
            trie = self._trie
            held = self._texts.get(key)
            if held is not None and held[0]() is document:
                self._texts.move_to_end(key)
                return held[1]
        text = QuotableText(document.text, trie)
        with self._lock:
            self._texts[key] = (weakref.ref(document), text)
            self._texts.move_to_end(key)
            while len(self._texts) > MOST_TEXTS:
                self._texts.popitem(last=False)
        return text

"""Triton functions that find a question, and the record of its document's layer, in the tables."""

import triton
import triton.language as tl

from engine.kernels.question.tables import Field

DOCUMENT = tl.constexpr(int(Field.DOCUMENT))
NUM_TOKENS = tl.constexpr(int(Field.NUM_TOKENS))
NUM_EARLIER = tl.constexpr(int(Field.NUM_EARLIER))
MASS = tl.constexpr(int(Field.MASS))
WANTED = tl.constexpr(int(Field.WANTED))


@triton.jit
def find_record(table, documents, document_stride):
    """Return a pointer to the record of the document's layer; `documents` is slot 0's."""
    return documents + tl.load(table + DOCUMENT) * document_stride

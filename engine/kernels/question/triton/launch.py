"""`attend_question` in Triton: the launches of a question's prefill, by tables.

The arithmetic is that of `attend_dense`, `select_tokens`, `attend_tokens` and
`accumulate_attention_mass`, whose Triton functions the kernels here call with what they find in the
tables. How many programs there are is the same for all documents: what a short one has no work for
ends at once.
"""

from engine.kernels.question.inputs import QuestionInputs
from engine.kernels.question.triton.add_mass import add_mass_by_table
from engine.kernels.question.triton.attend_dense import attend_dense_by_table
from engine.kernels.question.triton.attend_tokens import attend_tokens_by_table
from engine.kernels.question.triton.copy_rows import pack_rows, unpack_rows
from engine.kernels.question.triton.select_tokens import select_tokens_by_table
from engine.kernels.question.workspace import QuestionWorkspace


def attend_question_triton(inputs: QuestionInputs, work: QuestionWorkspace) -> None:
    """Launch `attend_question` in Triton.

    Args: as `attend_question`; nothing is checked.
    """
    buffers = work.kernels
    assert buffers is not None  # a workspace on a GPU has them
    pack_rows(inputs, work, buffers)
    attend_dense_by_table(inputs, work, buffers)
    if inputs.looks_up:
        select_tokens_by_table(inputs, work, buffers)
        attend_tokens_by_table(inputs, work, buffers)
        add_mass_by_table(inputs, work, buffers)
    unpack_rows(inputs, work, buffers)

"""Contract of `survey`."""

from torch import Tensor

from engine.kernels.decoding import QuestionKeys, ResidentLayer, Scoring, Workspace
from engine.kernels.survey.reference import survey_reference


def survey(
    query: Tensor, layer: ResidentLayer, question: QuestionKeys, work: Workspace, scoring: Scoring
) -> None:
    """Attend to what every token sees, and score the centroids that every lookup reads.

    Near keys are a retrieval head's anchors, a streaming head's keys, and the question's own; their
    mass is the E of the lookup's denominator. Centroids, of level 1 if there is one, are read once
    for all questions.

    Args:
        query: (batch, num_heads, head_dim); the others as `decode_attention` has checked them.
    Fills: of `work` near_out and near_lse; scores and parts, or upper_scores and upper_parts; and
        counts with zeros.
    Source: Squeezed Attention, equations 1 and 2; RazorAttention, equation 5; Flash-Decoding.
    """
    if query.is_cuda:
        from engine.kernels.survey.kernel import survey_triton

        survey_triton(query, layer, question, work, scoring)
    else:
        survey_reference(query, layer, question, work, scoring)

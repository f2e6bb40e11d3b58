"""Operations on a step's rows: tokens of questions about any mixture of documents."""

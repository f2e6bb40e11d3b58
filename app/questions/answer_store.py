"""Answers that were given before, for the same question about the same reading of a document.

Greedy answers alone are stored: the same question would get the same one again.
"""

import json
import time
from dataclasses import asdict, dataclass
from hashlib import sha256

from pydantic import ValidationError

from app.questions.checked_question import CheckedQuestion
from app.questions.schemas import AnswerBody
from engine.document.budget import AutoBudget
from engine.model.weights_check import WeightsCheck
from storage.db.records import DocumentRecord
from storage.stored_answers import StoredAnswers

HEADER = "x-lectern-answer"  # of every answer: `stored`, or `computed` for this question
STORED, COMPUTED = "stored", "computed"


@dataclass(frozen=True)
class AnswerStore:
    """Finds and stores answers.

    Attributes:
        answers: where they are stored.
        engine_fingerprint: names model, prompt and settings that answer.
        weights_check: of whether the model still is what it was; None for no check.
    """

    answers: StoredAnswers
    engine_fingerprint: str
    weights_check: WeightsCheck | None = None

    def key(self, document: DocumentRecord, question: CheckedQuestion) -> str:
        """Return what names the answer to a question; "" if it is not to be stored.

        It is not where a request or the settings say so, where tokens are drawn by chance, and
        about a document whose cache is not stored.
        """
        if not (self.answers.is_on and question.may_reuse) or question.sampling.temperature > 0:
            return ""
        if (artifact := document.artifact) is None:
            return ""
        asked = {
            "engine": self.engine_fingerprint,
            "document": str(document.id),
            "artifact": [str(artifact.id), artifact.manifest_hash],
            "question": question.text,
            "budget": asdict(question.budget)
            if isinstance(question.budget, AutoBudget)
            else question.budget,
            "sampling": asdict(question.sampling),
            "turns": [asdict(turn) for turn in question.turns],
            "may_drop_turns": question.may_drop_turns,
            "attention": question.wants_attention,
        }
        return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def find(self, document: DocumentRecord, key: str) -> AnswerBody | None:
        """Return the stored answer of a key, with the times and reads of this request.

        Raises: ModelChanged.
        """
        if not key:
            return None
        if self.weights_check is not None:
            self.weights_check.check_answer()
        begun_s = time.perf_counter()
        stored = self.answers.find(document.tenant_id, key)
        if stored is None:
            return None
        try:
            body = AnswerBody.model_validate_json(stored)
        except ValidationError:  # another version of this program stored it
            return None
        found_ms = round(1000 * (time.perf_counter() - begun_s), 3)
        timings_ms = dict.fromkeys(body.timings_ms, 0.0) | {
            "first_token": found_ms,
            "total": found_ms,
        }
        usage = body.usage.model_copy(update={"kv_bytes_read": 0})
        return body.model_copy(update={"timings_ms": timings_ms, "usage": usage, "stored": True})

    def add(self, document: DocumentRecord, key: str, body: AnswerBody) -> None:
        """Store an answer under its key, without what belongs to one request alone."""
        kept = body.model_copy(update={"answer_id": None})
        self.answers.add(document.tenant_id, document.id, key, kept.model_dump_json())

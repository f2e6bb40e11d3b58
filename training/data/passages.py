"""Needles of natural paragraphs: of one article, with questions that people or programs asked."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from training.data.answers import AnswerPool
from training.data.cloze_translation import make_sentence_questions, split_sentences
from training.data.facts import REFUSAL, Chunk, Needle, Question
from training.data.natural import INSIDE, Article, Passage, disguise
from training.data.noise import blur, disturb, recast, strip_down
from training.data.phrasing import StyleConfig, say_question
from training.data.synonyms import reword

_DISGUISED_SHARE = 0.75  # of the paragraphs
_ASKED_SHARE = 0.32  # of the questions that people asked: each too often is learned by heart
_ABRIDGED_SHARE = 0.5  # of the paragraphs: without some sentences that hold no answer
_LEFT_OUT = 0.3  # of these sentences
_TRANSLATED_SHARE = 0.25  # of the paragraphs: with questions made of their sentences
_STRANGE_SHARE = 0.3  # of the questions of another paragraph
_REWORDED = (0.0, 0.0, 0.3, 0.6)  # of a question's words that have synonyms: each as often
_TEXT_SHARE = 0.65  # of the characters of whole articles with their questions
_PLACED_SHARE = 0.1  # of the translated questions: they also name what the paragraph is about


@dataclass(frozen=True)
class PassageSampler:
    """Makes needles of articles.

    Attributes:
        lexicon: words that may take the place of others.
        pool: answers that may take the place of others.
    """

    articles: Sequence[Article]
    style: StyleConfig
    lexicon: tuple[str, ...]
    pool: AnswerPool

    def paragraphs(self, characters: float, rng: Random) -> Needle:
        """Paragraphs of one article, as many as fit but one at least, and questions of another."""
        article = rng.choice(self.articles)
        start = rng.randrange(len(article.passages))
        chunks: list[Chunk] = []
        questions: list[Question] = []
        for passage in article.passages[start:]:
            if chunks and len(passage.text) > characters:
                break
            text, asked = self._told(passage, rng)
            chunks.append(Chunk(text, is_block=True))
            questions += asked
            characters -= len(text) + _size(asked)
        return Needle(tuple(chunks), (*questions, *self._strangers(article, len(questions), rng)))

    def whole(self, characters: float, rng: Random) -> Needle:
        """Articles from their first paragraph on, in one piece: each paragraph among its rivals.

        Questions, drawn from all paragraphs, take the characters that the text leaves.
        """
        texts: list[str] = []
        questions: list[Question] = []
        room, article = _TEXT_SHARE * characters, rng.choice(self.articles)
        while True:
            for passage in article.passages:
                if texts and len(passage.text) > room:
                    break
                text, asked = self._told(passage, rng, most=2)
                texts.append(text)
                questions += asked
                room -= len(text)
            else:
                if room > 0.3 * characters or rng.random() < 0.5:
                    article = rng.choice(self.articles)
                    continue
            break
        questions += self._strangers(article, len(questions), rng)
        rng.shuffle(questions)
        left = characters - sum(map(len, texts))
        kept = []
        for question in questions:
            left -= _size([question])
            if left > 0:
                kept.append(question)
        return Needle((Chunk("\n".join(texts), is_block=True),), tuple(kept))

    def _told(self, passage: Passage, rng: Random, *, most: int = 1) -> tuple[str, list[Question]]:
        """A paragraph, mostly in disguise, and questions about it."""
        told = passage
        if rng.random() < _DISGUISED_SHARE:
            told = disguise(passage, rng, self.lexicon, self.pool)
        if rng.random() < _ABRIDGED_SHARE:
            told = abridge(told, rng)
        questions = [
            Question(self._ask(text, rng), answer, "natural")
            for text, answer in told.questions
            if text and answer in told.text and rng.random() < _ASKED_SHARE
        ]
        if rng.random() < _TRANSLATED_SHARE:
            topic = _topic(told.text)
            found = make_sentence_questions(told.text, rng, self.style, left_out=0, most=most)
            for one in found.questions:
                text = one.text
                if topic and topic not in text + one.answer and rng.random() < _PLACED_SHARE:
                    place = f" {rng.choice(('in', 'of', 'about', 'for', 'with'))} {topic}"
                    text = text.rstrip("?") + place + "?" * text.endswith("?")
                questions.append(Question(text, one.answer, one.kind))
        return told.text, questions

    def _ask(self, text: str, rng: Random) -> str:
        """A question that somebody asked, in one of many disguises."""
        text = reword(recast(text, rng), rng, rng.choice(_REWORDED))
        luck = rng.random()
        if luck < 0.12:
            return say_question(text, rng, self.style)
        if luck < 0.2:
            return disturb(text, rng)
        if luck < 0.38:
            return blur(text, rng)
        return strip_down(text, rng) if luck < 0.5 else text

    def _strangers(self, article: Article, num_questions: int, rng: Random) -> list[Question]:
        """Questions about another article: the document does not say."""
        other = rng.choice(self.articles)
        if other is article:
            return []
        pairs = rng.choice(other.passages).questions
        found = [
            Question(self._ask(text, rng), REFUSAL, "unanswerable")
            for text, _ in pairs
            if rng.random() < _STRANGE_SHARE
        ]
        return found[: 1 + num_questions // 8]


def abridge(passage: Passage, rng: Random) -> Passage:
    """Leave out some of the sentences that hold no answer; the last one is never left out."""
    answers = [answer for _, answer in passage.questions]
    *others, last = split_sentences(passage.text)
    kept = [
        sentence
        for sentence in others
        if rng.random() > _LEFT_OUT or any(answer in sentence for answer in answers)
    ]
    return Passage(" ".join([*kept, last]), passage.questions)


def _topic(text: str) -> str:
    """The name that stands most often in a text, if it stands there twice."""
    found = Counter(INSIDE.findall(text)).most_common(1)
    return found[0][0] if found and found[0][1] > 1 else ""


def _size(questions: Sequence[Question]) -> int:
    return sum(len(question.text) + len(question.answer) + 9 for question in questions)

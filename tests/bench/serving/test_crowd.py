"""The program that compares a crowd of questions with the same questions alone."""

from bench.serving.crowd import ask_alone, ask_together
from engine.decode.sampling import Sampling
from tests.models import FAMILIES, loaded, prose, read


def test_streams_have_the_same_tokens_alone_and_together() -> None:
    model = loaded(FAMILIES["llama"])
    documents = [read(model, prose(300, seed=seed)) for seed in (1, 2)]
    asked = [f"Who sold {number} maps?" for number in range(6)]
    how = Sampling(max_tokens=5, ignore_eos=True)
    _, alone = ask_alone(model, documents, asked, how)
    _, crowd = ask_together(model, documents, asked, how)
    assert [one.tokens for one in crowd] == [one.tokens for one in alone]
    assert [one.loaded for one in crowd] == [one.loaded for one in alone]
    assert {len(one.tokens) for one in crowd} == {5}
    assert all(one.first_token_s > 0 for one in (*alone, *crowd))

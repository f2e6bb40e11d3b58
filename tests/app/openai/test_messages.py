"""What a list of messages asks."""

import pytest

from app.openai.messages import Conversation, read_messages
from app.openai.schemas import ChatRequest, FileReference
from common.errors import EmptyQuestion, InvalidInput, UnsupportedParameter
from engine.model.prompt import Turn


def read(*messages: object) -> Conversation:
    body = ChatRequest.model_validate({"model": "lectern", "messages": list(messages)})
    return read_messages(body.messages, "messages")


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def bot(content: object) -> dict[str, object]:
    return {"role": "assistant", "content": content}


def test_turns_come_before_the_question_and_instructions_before_the_first_one() -> None:
    conversation = read(
        {"role": "system", "content": "Be brief."}, user("Who?"), bot("Ada."), user("When?")
    )
    assert conversation.turns == (Turn("Be brief.\n\nWho?", "Ada."),)
    assert conversation.question == "When?"
    assert conversation.file is None


def test_messages_of_one_speaker_are_one() -> None:
    assert read(user("Who?"), user([{"type": "text", "text": "And when?"}])).question == (
        "Who?\n\nAnd when?"
    )


def test_a_file_is_found_in_any_message_and_may_be_named_again() -> None:
    part = {"type": "file", "file": {"file_id": "f1"}, "prompt_cache_breakpoint": True}
    text = {"type": "text", "text": "Who?"}
    conversation = read(user([part, text]), bot("Ada."), user([part, text]))
    assert conversation.file == FileReference(file_id="f1")
    with pytest.raises(UnsupportedParameter, match="one document"):
        read(user([part, {"type": "file", "file": {"file_id": "f2"}}, text]))


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "input_file", "file_url": "http://example.org/a.pdf"},
    ],
)
def test_other_parts_are_refused_by_name(part: dict[str, object]) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        read(user([part, {"type": "text", "text": "Who?"}]))
    assert refusal.value.param == "messages"


@pytest.mark.parametrize(
    "messages", [[bot("Ada.")], [user("Who?"), bot("Ada.")], [bot("Hi."), user("Who?")]]
)
def test_the_user_begins_and_has_the_last_word(messages: list[dict[str, object]]) -> None:
    with pytest.raises(InvalidInput):
        read(*messages)


@pytest.mark.parametrize("content", ["", "  ", [], None])
def test_a_question_holds_text(content: object) -> None:
    with pytest.raises(EmptyQuestion):
        read(user(content))


def test_tools_and_their_messages_are_refused() -> None:
    with pytest.raises(UnsupportedParameter):
        read(user("Who?"), {"role": "tool", "content": "42", "tool_call_id": "c"}, user("When?"))


@pytest.mark.parametrize(
    ("name", "nothing", "something"),
    [
        ("n", 1, 2),
        ("tools", [], [{"type": "function"}]),
        ("logprobs", False, True),
        ("presence_penalty", 0, 0.5),
        ("response_format", {"type": "text"}, {"type": "json_object"}),
        ("logit_bias", None, {"50": 1}),
    ],
)
def test_a_parameter_is_refused_by_name_only_where_it_asks_for_something(
    name: str, nothing: object, something: object
) -> None:
    body = {"model": "lectern", "messages": [user("Who?")]}
    ChatRequest.model_validate(body | {name: nothing, "user": "u1", "metadata": {"a": "b"}})
    with pytest.raises(UnsupportedParameter) as refusal:
        ChatRequest.model_validate(body | {name: something})
    assert refusal.value.param == name


def test_an_unknown_parameter_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        ChatRequest.model_validate({"model": "m", "messages": [user("Who?")], "temprature": 1})
    assert refusal.value.param == "temprature"

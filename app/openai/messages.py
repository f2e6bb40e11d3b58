"""What the messages of a chat ask: earlier turns, a question, and the file that it is about."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.openai.schemas import (
    FilePart,
    FileReference,
    InputFilePart,
    Message,
    Part,
    TextPart,
)
from common.errors import EmptyQuestion, InvalidInput, UnsupportedParameter
from engine.model.prompt import Turn

INSTRUCTIONS = ("system", "developer")
SPEAKERS = ("user", "assistant")
TEXT = "`text`, which is a string of whole characters"
HOLDS = {
    "text": TEXT,
    "input_text": TEXT,
    "output_text": TEXT,
    "file": "`file`, which is an object with `file_id` or `file_data`",
    "input_file": "`file_id` or `file_data`, which are strings",
}


@dataclass(frozen=True)
class Conversation:
    """What a list of messages says.

    Attributes:
        turns: earlier questions with their answers, oldest first.
        question: the last message of the user. Instructions stand before the first question.
        file: the one file that any message names; None if none does.
    """

    turns: tuple[Turn, ...]
    question: str
    file: FileReference | None


def read_messages(messages: Sequence[Message], param: str, instructions: str = "") -> Conversation:
    """Read the messages of a request.

    Messages of one speaker that follow each other count as one.

    Args:
        param: name of the parameter that holds the messages.
        instructions: text that stands before the first question, as that of system messages.
    Raises: InvalidInput if they do not alternate, end with an answer, or do not hold what they say;
        EmptyQuestion; UnsupportedParameter for parts that are neither text nor a file, or for
        several files.
    """
    preface = [instructions] if instructions else []
    spoken: list[tuple[str, list[str]]] = []
    files: list[FileReference] = []
    for message in messages:
        _check_kind(message, param)
        texts = _texts(message, param, files)
        if message.role in INSTRUCTIONS:
            preface += texts
        elif spoken and spoken[-1][0] == message.role:
            spoken[-1][1].extend(texts)
        else:
            spoken.append((message.role, texts))
    if not spoken or spoken[-1][0] != "user":
        raise InvalidInput(f"{param}: the last message must be the user's question.", param=param)
    if spoken[0][0] != "user":
        raise InvalidInput(f"{param}: the first message must be the user's.", param=param)
    spoken[0] = ("user", [*preface, *spoken[0][1]])
    said = ["\n\n".join(text for text in texts if text.strip()) for _, texts in spoken]
    if not said[-1].strip():
        raise EmptyQuestion("Ask a question: the last message holds no text.", param=param)
    turns = [Turn(said[index], said[index + 1]) for index in range(0, len(said) - 1, 2)]
    return Conversation(tuple(turns), said[-1], _only_file(files, param))


def _check_kind(message: Message, param: str) -> None:
    if message.type not in (None, "message"):
        raise UnsupportedParameter(
            f"{param}: items of the type '{message.type[:40]}' are not supported.", param=param
        )
    if message.role not in (*INSTRUCTIONS, *SPEAKERS):
        raise UnsupportedParameter(
            f"{param}: messages of the role '{message.role[:40]}' are not supported.", param=param
        )


def _texts(message: Message, param: str, files: list[FileReference]) -> list[str]:
    """Return the texts of a message, and add its files to `files`."""
    if message.content is None:
        return []
    if isinstance(message.content, str):
        return [message.content]
    texts = []
    for part in message.content:
        if isinstance(part, TextPart):
            texts.append(part.text)
        else:
            files.append(_file_of(part, param))
    return texts


def _file_of(part: Part, param: str) -> FileReference:
    if isinstance(part, InputFilePart):
        if part.file_url is not None:
            raise UnsupportedParameter(
                f"{param}: file_url is not fetched; upload the file.", param=param
            )
        return part
    if isinstance(part, FilePart):
        return part.file
    if part.type in HOLDS:
        raise InvalidInput(
            f"{param}: a part of the type '{part.type}' holds {HOLDS[part.type]}.", param=param
        )
    raise UnsupportedParameter(
        f"{param}: parts of the type '{part.type[:40]}' are not supported.", param=param
    )


def _only_file(files: Sequence[FileReference], param: str) -> FileReference | None:
    different = {(file.file_id, file.file_data) for file in files}
    if len(different) > 1:
        raise UnsupportedParameter(
            f"{param}: a question is about one document; these messages name {len(different)}.",
            param=param,
        )
    if not files:
        return None
    if files[0].file_id is None and files[0].file_data is None:
        raise InvalidInput(
            f"{param}: a file part holds a file_id, or file_data in base64.", param=param
        )
    return files[0]

"""The listening socket, and the connections that are accepted from it."""

import asyncio
import socket

import pytest

from cli.listener import CannotServe, listen, url_of


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_accepted_connections_do_not_wait_for_acknowledgements(host: str) -> None:
    async def accepted_option() -> int:
        options: list[int] = []

        async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            options.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listen(host, 0) as listener:
            async with await asyncio.start_server(note, sock=listener):
                reader, writer = await asyncio.open_connection(host, listener.getsockname()[1])
                assert await reader.read() == b""
                writer.close()
        return options[0]

    assert asyncio.run(accepted_option()) == 1


def test_an_address_in_use_is_an_error_with_a_hint() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(CannotServe, match="--port"):
        listen("127.0.0.1", first.getsockname()[1])


def test_the_url_is_one_that_a_browser_opens() -> None:
    with listen("0.0.0.0", 0) as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"

"""A relay between a client and a server, to hang or cut the connection without the server."""

import selectors
import socket
import threading


class Relay:
    """Forwards bytes until told not to; a hung relay still acknowledges packets.

    Args:
        host, port: where the real server listens.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._hung = threading.Event()
        self._stop = threading.Event()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Relay":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.cut()
        self._listener.close()

    def hang(self) -> None:
        """Forward nothing, answer nothing."""
        self._hung.set()

    def resume(self) -> None:
        """Go on as if nothing had been."""
        self._hung.clear()

    def cut(self) -> None:
        """Break all connections."""
        with self._lock:
            for one in self._pairs:
                one.close()
            self._pairs.clear()

    def _run(self) -> None:
        self._listener.setblocking(False)
        while not self._stop.wait(0.002):
            if self._hung.is_set():
                continue
            self._accept()
            self._forward()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        server = socket.create_connection(self._target)
        with self._lock:
            self._pairs[client], self._pairs[server] = server, client

    def _forward(self) -> None:
        with self._lock, selectors.DefaultSelector() as selector:
            for one in self._pairs:
                selector.register(one, selectors.EVENT_READ)
            for key, _ in selector.select(0) if self._pairs else ():
                self._pass_on(key.fileobj)  # type: ignore[arg-type]

    def _pass_on(self, one: socket.socket) -> None:
        other = self._pairs.get(one)
        if other is None:
            return
        try:
            data = one.recv(65536)
            other.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (one, other):
                del self._pairs[end]
                end.close()

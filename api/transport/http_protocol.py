"""The connection, below the application: what is no HTTP at all, and clients that are endlessly slow.

Each is answered in the form that every refusal has, where an answer can still be told from one that is under way.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.http import problems
from api.transport.response_writer import HeadWithBody, offer_push
from api.transport.slow_clients import SlowClientWatch
from api.transport.websocket_handshake import WISH, is_wish
from eventstore.domain.errors import InvalidRequest, LaybyError, RequestTimeout
from eventstore.domain.values import json_text
from eventstore.domain.values.ids import random_id

HEAD_BYTES: Final = 64 * 1024
PATIENCE_S: Final = 20.0
"""How long a request may take to arrive; its body gets so much more as is worth its size at the slowest rate."""
SLOWEST: Final = 16 * 1024
"""Bytes a second that a body must keep up, once the patience is used up."""
_LARGE_HEAD: Final = "the head is too large"
"""Raised in the midst of parsing, it tells the parser to give up, which ends in a refusal."""
PIPELINED: Final = 1_000
"""Requests that may wait behind one that is being answered on the same connection."""


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with refusals of ours in place of a line of text, and limits in size and time: the parser
    collects a header that never ends, and nothing else asks for a request to come to its end."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._number: int = 0  # of the request that arrives, or arrived last
        self._heading: bool = True  # before its body
        self._wishless: bytes = b""  # its head, where it has to be parsed again
        self._wish: bool = False  # it is for a WebSocket
        self._begun: bool = False  # it has begun to arrive, and has not arrived
        self._head: int = 0  # bytes of its head that the parser has told of
        self._unheard: int = 0  # bytes that came while it told of no end
        self._since: float = 0.0
        self._body: int = 0  # bytes of it so far
        self._timer: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # as uvicorn has it
        super().connection_made(transport)
        self._unread: SlowClientWatch = SlowClientWatch(self.loop, transport, self._abort)
        self._idle()

    def _idle(self) -> None:
        """Close in time, if nothing is under way and nothing comes. uvicorn does so only once an answer is given, and
        no more once anything has come, if only the empty lines that may stand before a request."""
        if self.timeout_keep_alive_task is None and (not self.cycle or self.cycle.response_complete):
            wait = self.timeout_keep_alive
            self.timeout_keep_alive_task = self.loop.call_later(wait, self.timeout_keep_alive_handler)

    def _busy(self) -> None:
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._unread.end()
        self._let_go()
        super().connection_lost(exc)

    # What arrives

    def data_received(self, data: bytes) -> None:
        number = self._number if self._heading else -1
        self._busy()
        self._parse(data)
        if self.transport.is_closing():
            return None
        if self._heading and number == self._number:  # all of it, and the parser may not have told of it yet
            self._unheard += len(data)
            if self._unheard > HEAD_BYTES:
                return self.send_400_response("")
        if len(self.pipeline) > PIPELINED:
            return self._hang_up()
        if not self._begun:
            self._stop_waiting()
            self._idle()
        elif self._timer is None:
            self._timer = self.loop.call_later(PATIENCE_S, self._late)
        return None

    def _parse(self, data: bytes) -> None:
        """Let the parser tell of it. A request may wish for another protocol, as Java's client does with its first one;
        that is passed over. The parser would pass over its body, so it is given the head anew without the wish. That
        for a WebSocket is told to the application, which may pass it over too."""
        pieces = [memoryview(data)]
        while pieces:
            piece = pieces.pop()
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserError:
                return self.send_400_response("")
            except httptools.HttpParserUpgrade as upgrade:
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
                pieces += [piece[upgrade.args[0] :], memoryview(self._wishless)]
                self._wishless = b""
        return None

    def on_message_begin(self) -> None:
        self._number += 1
        self._heading = self._begun = True
        self._head = self._unheard = self._body = 0
        self._since = self.loop.time()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._head += len(url)
        if self._head > HEAD_BYTES:
            raise ValueError(_LARGE_HEAD)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value)
        if self._head > HEAD_BYTES:
            raise ValueError(_LARGE_HEAD)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            self._wishless = self._without_wish()
            return
        if self._wish:
            cast("dict[str, Any]", self.scope)["extensions"] = {WISH: {}}
            self._wish = False
        super().on_headers_complete()
        self._heading = False
        self._prepare(self.cycle)

    def _prepare(self, cycle: RequestResponseCycle) -> None:
        """Its application has not run yet: it runs as a task, now or after those of earlier requests."""
        if not self.pipeline:
            self._running = cycle
        cycle.transport = cast(asyncio.Transport, HeadWithBody(self.loop, self.transport))
        if cycle.scope["method"] == "GET":
            offer_push(cycle)

    def _without_wish(self) -> bytes:
        method = self.parser.get_method()
        if method == b"CONNECT":  # to the parser this is a wish by itself
            raise ValueError("there is nothing to connect to")
        version = self.parser.get_http_version()
        self._wish = is_wish(method, version, self.headers)
        fields = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([b" ".join([method, self.url, b"HTTP/" + version.encode()]), *fields, b"", b""])

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._wishless:
            return
        self._heading, self._begun = True, False
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._running, _ = self.pipeline[-1]
        super().on_response_complete()

    def _late(self) -> None:
        """The request should be here by now."""
        self._timer = None
        wait = self._since + PATIENCE_S + self._body / SLOWEST - self.loop.time()
        if wait <= 0 and self.flow.read_paused:  # it is we who do not read
            wait = PATIENCE_S
        if wait > 0:
            self._timer = self.loop.call_later(wait, self._late)
        else:
            self._refuse(
                RequestTimeout(f"the request did not arrive in {PATIENCE_S:.0f} s and at {SLOWEST} bytes a second"),
                "408 Request Timeout",
            )

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # What is taken

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.begin()

    def resume_writing(self) -> None:
        self._unread.end()
        super().resume_writing()

    def _abort(self) -> None:
        """End an answer that a client hardly takes, and that stands in memory. Streams hold little, and may be slow."""
        self.transport.abort()
        self._let_go()

    # Refusals

    def send_400_response(self, msg: str) -> None:
        error = InvalidRequest.unreadable(
            f"this is not a request that HTTP/1.1 allows, or it has more than {HEAD_BYTES} bytes before its body:"
            " look at its URL and its headers"
        )
        self._refuse(error, f"{problems.WRONG_ADDRESS} Bad Request")

    def _refuse(self, error: LaybyError, status: str) -> None:
        """Answer, unless that could be taken for the answer to another request; and close."""
        if self._may_answer:
            body = json_text.dumps({**problems.document(error, ""), "status": int(status[:3])}).encode()
            head = (
                f"HTTP/1.1 {status}\r\ncontent-type: {problems.MEDIA_TYPE}\r\n"
                f"content-length: {len(body)}\r\nlayby-request-id: {random_id('')}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self._hang_up()

    def _hang_up(self) -> None:
        self.transport.close()
        self._let_go()

    def _let_go(self) -> None:
        """Tell the request that is being answered that nobody listens; uvicorn tells only the one that came last."""
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    @property
    def _may_answer(self) -> bool:
        if self._heading:  # nothing is known of the request yet; the one before may be under way
            return not self.cycle or self.cycle.response_complete
        return not self.cycle.response_started and not self.pipeline

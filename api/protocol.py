"""What is no HTTP at all never reaches the application; it is answered here, in the form that every refusal has."""

from __future__ import annotations

import json
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api import problems
from eventstore.domain.errors import InvalidRequest
from eventstore.domain.ids import random_id

HEAD_BYTES: Final = 64 * 1024


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with a refusal of ours in place of a line of text, and a limit on what may come before a
    body: the parser collects a header that never ends."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head: int | None = 0

    def data_received(self, data: bytes) -> None:
        heading = self._head is not None
        super().data_received(data)
        if heading and self._head is not None:
            self._head += len(data)
            if self._head > HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("")

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        error = InvalidRequest.unreadable(
            f"this is not a request that HTTP/1.1 allows, or it has more than {HEAD_BYTES} bytes before its body:"
            " look at its URL and its headers"
        )
        body = json.dumps({**problems.document(error, ""), "status": problems.WRONG_ADDRESS}).encode()
        head = (
            f"HTTP/1.1 {problems.WRONG_ADDRESS} Bad Request\r\ncontent-type: {problems.MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nlayby-request-id: {random_id('')}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

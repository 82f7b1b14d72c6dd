"""What is no HTTP at all never reaches the application; it is answered here, in the form that every refusal has."""

from __future__ import annotations

import json

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api import problems
from eventstore.domain.errors import InvalidRequest
from eventstore.domain.ids import random_id


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with a refusal of ours in place of a line of text."""

    def send_400_response(self, msg: str) -> None:
        error = InvalidRequest.unreadable("this is not a request that HTTP/1.1 allows: look at its URL and its headers")
        body = json.dumps({**problems.document(error, ""), "status": problems.WRONG_ADDRESS}).encode()
        head = (
            f"HTTP/1.1 {problems.WRONG_ADDRESS} Bad Request\r\ncontent-type: {problems.MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nlayby-request-id: {random_id('')}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

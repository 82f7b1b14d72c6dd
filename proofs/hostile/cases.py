"""What a hostile client sends: each kind of trouble, made anew each time from the same seed."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, quote_from_bytes

from proofs.hostile.exchange import Hostile

NDJSON = "application/x-ndjson"
KIB = 1024
ESCAPES = ("..", ".", "a:b", "{p00}", "*", "a\nb", "a\x00b", "日本", "layby:store", "[a-z]", "a/b", "%2e%2e", "x" * 300)
GARBAGE = (
    *(
        "",
        "0",
        "-0",
        "1.5",
        "1e3",
        "0x1",
        "+1",
        " 1",
        "1 ",
        "\u0661",
        "9" * 40,
        "-" + "9" * 40,
        "now ",
        "NaN",
        "null",
        "\x00",
    ),
    *("%", "%zz", "a" * 5_000, "'; --", "../../etc", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")),
)


@dataclass(slots=True)
class Cases:
    """Requests about one session, which has this id and belongs to one client alone."""

    chance: random.Random
    session_id: str = ""
    number: int = 0

    def next(self) -> Hostile:
        self.number += 1
        return self.chance.choices(_MAKERS, _WEIGHTS)[0](self)

    @property
    def _events(self) -> str:
        return f"/v1/sessions/{self.session_id}/events"

    def _request(
        self, method: str, target: str, body: bytes = b"", *fields: str, length: int | str | None = None
    ) -> bytes:
        told = [f"Content-Length: {len(body) if length is None else length}"] if method == "POST" else []
        head = "\r\n".join([f"{method} {target} HTTP/1.1", "Host: localhost", *fields, *told, "", ""])
        return head.encode("latin-1") + body

    def _batch(self, count: int = 3) -> bytes:
        lines = [json.dumps({"type": "a.b", "data": {"n": self.number, "i": i}}).encode() for i in range(count)]
        return b"\n".join(lines) + self.chance.choice((b"", b"\n", b"\n\n\n"))

    def _post(self, body: bytes, kind: str, events: int | None) -> Hostile:
        return Hostile(kind, self._request("POST", self._events, body, f"Content-Type: {NDJSON}"), events=events)

    # Bodies

    def good(self) -> Hostile:
        count = self.chance.choice((1, 2, 50))
        return self._post(self._batch(count), "a good batch", count)

    def chunked(self) -> Hostile:
        """A good batch, in chunks of any size, with what chunks may carry besides."""
        body, parts = self._batch(), list[bytes]()
        while body:
            size = self.chance.randint(1, len(body))
            extension = self.chance.choice((b"", b"", b";a=b", b';x="y z"'))
            parts.append(b"%X%s\r\n%s\r\n" % (size, extension, body[:size]))
            body = body[size:]
        trailer = self.chance.choice((b"", b"X-Trailer: 1\r\n"))
        return Hostile("chunks", self._chunked_head() + b"".join(parts) + b"0\r\n" + trailer + b"\r\n", events=3)

    def _chunked_head(self, *fields: str) -> bytes:
        told = (f"POST {self._events} HTTP/1.1", "Host: localhost", f"Content-Type: {NDJSON}", *fields)
        return "\r\n".join([*told, "Transfer-Encoding: chunked", "", ""]).encode()

    def bad_chunks(self) -> Hostile:
        sizes = (
            b"zz",
            b"-1",
            b"",
            b"FFFFFFFFFFFFFFFFF",
            b"0x5",
            b"5 ;",
            b"5\n",
            b"\x00",
            b"1" * 5_000,
            b"7fffffffffffffff",
        )
        size, body = self.chance.choice(sizes), self._batch()
        first = b"%x\r\n%s\r\n" % (len(body), body) if self.chance.random() < 0.5 else b""
        return Hostile(
            "bad chunks", self._chunked_head() + first + size + b"\r\n" + body + b"\r\n", events=0, ends=True
        )

    def broken_json(self) -> Hostile:
        """A batch in which one line is wrong: none of it may be kept."""
        wrong = self.chance.choice(WRONG_LINES)
        lines = [*self._batch(2).split(b"\n"), wrong, b'{"type":"a.b"}']
        self.chance.shuffle(lines)
        return self._post(b"\n".join(lines), "a broken line", 0)

    def strange_json(self) -> Hostile:
        """Lines that are unusual, and right."""
        chosen = self.chance.sample(STRANGE_LINES, k=self.chance.randint(1, 3))
        return self._post(b"\n".join(chosen), "strange lines", len(chosen))

    def deep(self) -> Hostile:
        depth = self.chance.choice((50, 97, 98, 99, 101, 1_000, 100_000))
        opening, closing = self.chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
        inner = opening * depth + (b"1" if opening != b"[" else b"") + closing * depth
        cut = inner[: len(inner) // 2] if self.chance.random() < 0.3 else inner
        whole = cut is inner and depth < 90
        return self._post(
            b'{"type":"a.b","data":{"x":' + cut + b"}}", "nesting", 1 if whole else 0 if depth > 100 else None
        )

    def large(self) -> Hostile:
        size, count = self.chance.choice(((300 * KIB, 1), (250 * KIB, 3), (10, 1_001), (10, 1_000)))
        line = b'{"type":"a.b","data":{"x":"%s"}}' % (b"y" * size)
        taken = size < 256 * KIB and count <= 1_000
        return self._post(b"\n".join([line] * count), "large", count if taken else 0)

    def costly_schema(self) -> Hostile:
        """A schema whose answers could hold up a server, or whose patterns could."""
        data = {"interrupt_id": f"c{self.number}", "kind": "question", "response_schema": self.chance.choice(_COSTLY)}
        line = json.dumps({"type": "input.requested", "data": data}).encode()
        return self._post(b"\n".join([*self._batch(1).split(b"\n"), line]), "a costly schema", 0)

    def huge(self) -> Hostile:
        return self._post(b" " * (5 * KIB * KIB), "beyond the limit of a body", 0)

    # Lengths

    def wrong_length(self) -> Hostile:
        body = self._batch()
        length = self.chance.choice(("-1", "abc", "", "1,2", "+5", "0x10", "9" * 30, "1e3", " ", str(10**18)))
        data = self._request("POST", self._events, body, f"Content-Type: {NDJSON}", length=length)
        return Hostile("a wrong Content-Length", data, ends=True)

    def two_lengths(self) -> Hostile:
        fields = self.chance.choice(
            (("Content-Length: 5",), ("Transfer-Encoding: chunked",), ("Transfer-Encoding: gzip",))
        )
        return Hostile("two lengths", self._request("POST", self._events, self._batch(), *fields), ends=True)

    def too_short(self) -> Hostile:
        """What is left over of the body looks like another request."""
        body = self._batch()
        data = self._request(
            "POST", self._events, body, f"Content-Type: {NDJSON}", length=self.chance.randrange(len(body))
        )
        return Hostile("a Content-Length that is too short", data, ends=True)

    def too_long(self) -> Hostile:
        body = self._batch()
        data = self._request("POST", self._events, body, length=len(body) + self.chance.randint(1, 100_000))
        return Hostile("a body that does not come", data, events=0, ends=True)

    # Heads

    def pipelined(self) -> Hostile:
        count = self.chance.randint(2, 40)
        one = self._request("POST", self._events, b'{"type":"a.b"}')
        other = self._request("GET", f"{self._events}?limit=1")
        chosen = [self.chance.choice((one, other)) for _ in range(count)]
        return Hostile("pipelined", b"".join(chosen), answers=count, events=chosen.count(one))

    def flood(self) -> Hostile:
        many, size = self.chance.choice(((2_000, 20), (1, 70_000), (30, 1_000), (5_000, 1), (1, 1_000_000)))
        fields = (f"X-{n}: {'y' * size}" for n in range(many))
        return Hostile("a flood of headers", self._request("GET", "/healthz", b"", *fields), ends=True)

    def odd_head(self) -> Hostile:
        lines = (
            b"GET / HTTP/9.9",
            b"GET  /healthz HTTP/1.1",
            b"\x16\x03\x01\x02",
            b"PRI * HTTP/2.0",
            b"get /healthz HTTP/1.1",
        )
        odd = (b"GET /healthz\xff HTTP/1.1", b"OPTIONS * HTTP/1.1", b"CONNECT x:1 HTTP/1.1", b"GET /healthz HTTP/1.0")
        more = (
            b"GET http://localhost/healthz HTTP/1.1",
            b"GET //healthz HTTP/1.1",
            b"GET ? HTTP/1.1",
            b"\r\n\r\nGET /",
        )
        fields = (
            b"Host: localhost",
            b"Host : x",
            b" folded: x",
            b"N\x00ame: x",
            b"V: \x00",
            b": x",
            b"Upgrade: websocket\r\nConnection: Upgrade",
        )
        data = b"\r\n".join([self.chance.choice((*lines, *odd, *more)), self.chance.choice(fields), b"", b""])
        return Hostile("an odd head", data, ends=True)

    def odd_fields(self) -> Hostile:
        """Headers that mean something to Layby."""
        name = self.chance.choice(
            ("If-Match", "If-None-Match", "Idempotency-Key", "Layby-Actor", "Content-Type", "Accept")
        )
        value = self.chance.choice(
            ('"1', "*", 'W/"1"', "é", "x" * 1_000, ",,,", '"9999999999999999999"', "layby", "\t", ";q=x")
        )
        body = b'{"type":"a.b"}'
        data = self._request("POST", self._events, body, f"{name}: {value}", "Expect: 100-continue")
        return Hostile("odd fields", data)

    # Places

    def garbage_place(self) -> Hostile:
        """A garbled place to begin at is refused, never a full replay."""
        value = quote(self.chance.choice(GARBAGE), safe="")
        route, name = self.chance.choice(
            (
                ("/events", "from"),
                ("/stream", "from"),
                ("/events", "limit"),
                ("", "at"),
                ("", "at_time"),
                ("/steps", "cursor"),
            )
        )
        number = name == "from" and value.removeprefix("-").isdecimal() and len(value) > 20
        if number or (name == "at" and value.isdigit()):  # a number is a point, if one beyond the end
            route, name = "", "at_time"
        target = f"/v1/sessions/{self.session_id}{route}?{name}={value}"
        return Hostile("a garbled place", self._request("GET", target), refused=True, opens=True)

    def garbage_feed(self) -> Hostile:
        value = quote(self.chance.choice((*GARBAGE, "AAAA", "A" * 400, "eyJhIjoxfQ")), safe="")
        target = self.chance.choice(
            (f"/v1/stream?cursor={value}", f"/v1/sessions?cursor={value}", f"/v1/calls?cursor={value}")
        )
        return Hostile("a garbled cursor", self._request("GET", target), refused=True, opens=True)

    def garbage_last_id(self) -> Hostile:
        value = self.chance.choice([text for text in GARBAGE if text.isascii() and text.isprintable()])
        target = self.chance.choice((f"/v1/sessions/{self.session_id}/stream", "/v1/stream"))
        fields = (f"Last-Event-ID: {value}", f"Accept: {self.chance.choice(('text/event-stream', '*/*', 'a/b;q=z'))}")
        return Hostile("a garbled Last-Event-ID", self._request("GET", target, b"", *fields), opens=True)

    def follow(self) -> Hostile:
        """A good stream, which its reader leaves without a word."""
        start = self.chance.choice(("1", "-1", "-5", "now", "3"))
        accept = self.chance.choice(("text/event-stream", NDJSON))
        target = f"/v1/sessions/{self.session_id}/stream?from={start}&types=a.*"
        return Hostile("a stream left", self._request("GET", target, b"", f"Accept: {accept}"), opens=True)

    def escape(self) -> Hostile:
        name = self.chance.choice(ESCAPES)
        quoted = self.chance.choice((quote(name, safe=""), quote_from_bytes(name.encode() + b"\xff", safe="")))
        one, call = f"/v1/sessions/{quoted}", f"/v1/sessions/{self.session_id}/calls/{quoted}"
        method, target = self.chance.choice(
            (
                *(
                    ("GET", one),
                    ("GET", f"{one}/events"),
                    ("POST", f"{one}/events"),
                    ("DELETE", f"{one}x"),
                    ("GET", call),
                ),
                *(
                    ("POST", f"{call}/decision"),
                    ("POST", f"{call}/claim"),
                    ("GET", f"/zhin/v1/session/{quoted}/stream"),
                ),
                ("POST", f"/zhin/v1/authorization/{quoted}/complete"),
            )
        )
        body = b'{"type":"a.b"}' if target.endswith("events") else b'{"action":"approve"}'
        return Hostile("a name that tries to escape", self._request(method, target, body), opens=True)

    def mutated(self) -> Hostile:
        """A good request with a few bytes of it changed."""
        data = bytearray(self.chance.choice((self.good, self.chunked, self.pipelined))().data)
        for _ in range(self.chance.randint(1, 8)):
            at = self.chance.randrange(len(data))
            change = self.chance.randrange(4)
            if change == 0:
                data[at] = self.chance.randrange(256)
            elif change == 1:
                del data[at : at + self.chance.randint(1, 20)]
            elif change == 2:
                data[at:at] = bytes(self.chance.randrange(256) for _ in range(self.chance.randint(1, 20)))
            else:
                data[at:at] = data[at : at + self.chance.randint(1, 200)]
            if not data:
                data += b"\x00"
        return Hostile("bytes changed", bytes(data), answers=50, ends=True)


WRONG_LINES = (
    *(
        b"{",
        b"[]",
        b"null",
        b'"a"',
        b"1",
        b'{"type":"a.b"',
        b'{"type":"a.b"}}',
        b'{"type":"a.b"}{"type":"a.b"}',
        b"\x00",
    ),
    *(
        b"\xff\xfe",
        b'{"type":"a.b","data":{"x":"\xff"}}',
        b'{"type":"a.b","data":{"x":"\\ud800"}}',
        b'{"type":"a.b\x00"}',
    ),
    *(b'{"type":"a.b","data":{"x":NaN}}', b'{"type":"a.b","data":{"x":Infinity}}', b'{"type":"a.b","data":{"x":01}}'),
    *(b'{"type":"a.b","data":{"x":1e999}}', b'{"type":"a.b","data":{"x":"\x01"}}', b'{"type":"session.started"}'),
    *(b'{"type":"A.b"}', b'{"type":"a"}', b'{"type":"a.b","extra":1}', b'{"type":"a.b","data":[]}', b'{"type":7}'),
    *(
        b'{"type":"turn.completed"}',
        b'{"type":"input.requested","data":{}}',
        b'{"type":"step.started"}',
        b"\xef\xbb\xbf{}",
    ),
    *(b'{"type":"a.b","occurred_at":"soon"}', b'{"type":"a.b","data":{"x":"\\x"}}', b"'a'", b"{'type':'a.b'}"),
)
STRANGE_LINES = (
    b'{"type":"a.b","data":{"x":"\xe2\x80\xa8\xe2\x80\xa9\xc2\x85"}}',
    b'{"type":"a.b","data":{"x":"\\u2028\\u0000\\n\\r"}}',
    b'{"type":"a.b","data":{"x":' + b"9" * 4_000 + b"}}",
    b'{"type":"a.b","data":{"x":-0.0,"y":1e-300,"z":123456789012345678901234567890}}',
    b'{"type":"a.b","data":{"":1,"\\u0000":2," ":3,"__proto__":4}}',
    b'{"type":"a.b","data":{"x":1,"x":2}}',
    b'{"type":"a.b","data":null,"occurred_at":null}',
    b' \t{ "type" : "a.b" } \t',
    b'{"type":"a.b","data":{"x":"\\ud83d\\ude00\xf0\x9f\x98\x80"}}',
    b'{"type":"data.type","data":{"type":"session.completed","seq":-1,"by":"layby"}}',
    b'{"occurred_at":"2026-11-29T12:00:00+23:59","type":"a.b"}',
)
_COSTLY: tuple[object, ...] = (
    {"pattern": r"\pL{9000}"},
    {"pattern": "((((a{50}){50}){50}){50})b"},
    {"anyOf": [{"pattern": "x" * 100}] * 60},
    functools.reduce(
        lambda inner, _: {"unevaluatedItems": True, "if": inner, "then": {}}, range(25), {"type": "array"}
    ),
    functools.reduce(lambda inner, _: {"anyOf": [inner, inner]}, range(15), {"type": "array"}),
    {"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"},
)
_KINDS: dict[Callable[[Cases], Hostile], int] = {
    Cases.good: 6,
    Cases.chunked: 8,
    Cases.bad_chunks: 8,
    Cases.broken_json: 14,
    Cases.strange_json: 8,
    Cases.deep: 4,
    Cases.large: 1,
    Cases.costly_schema: 2,
    Cases.huge: 1,
    Cases.wrong_length: 6,
    Cases.two_lengths: 4,
    Cases.too_short: 6,
    Cases.too_long: 4,
    Cases.pipelined: 3,
    Cases.flood: 2,
    Cases.odd_head: 8,
    Cases.odd_fields: 8,
    Cases.garbage_place: 12,
    Cases.garbage_feed: 8,
    Cases.garbage_last_id: 8,
    Cases.follow: 4,
    Cases.escape: 10,
    Cases.mutated: 20,
}
_MAKERS, _WEIGHTS = list(_KINDS), list(_KINDS.values())

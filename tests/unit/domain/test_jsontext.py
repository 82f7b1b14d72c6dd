"""JSON as Layby keeps it."""

from __future__ import annotations

import json

import pytest

from eventstore.domain.values import json_text
from eventstore.domain.values.json_text import BadJson, LongInteger, canonical, dumps, loads

LONG = "123456789" * 700


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '{"a":[NaN]}', "1e400", "-1e400"])
def test_numbers_that_json_does_not_have_are_refused(text):
    with pytest.raises(BadJson):
        loads(text)


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ('"\\ud800"', ""),
        ('{"a":["\\uDFFF"]}', "/a/0"),
        ('{"a":{"\\ud800":1}}', "/a"),
        ('{"a/b":{"~":"\\udc00\\ud800"}}', "/a~1b/~0"),
        ('"\ud800"', ""),
    ],
)
def test_a_lone_surrogate_is_refused_where_it_stands(text, pointer):
    with pytest.raises(BadJson) as refused:
        loads(text)
    assert refused.value.pointer == pointer


def test_a_pair_of_surrogates_is_a_character():
    assert loads(b'"\\ud83d\\ude00"') == "\U0001f600"
    assert loads('"\\\\ud800"') == "\\ud800"


@pytest.mark.parametrize("text", [b"\xff", b'"\xed\xa0\x80"', b'"\xc0\x80"', b'\xef\xbb\xbf{"a":1}'])
def test_only_utf_8_is_read(text):
    with pytest.raises(BadJson):
        loads(text)


@pytest.mark.parametrize(
    "text", ["", " ", "{", "[1,]", "{'a':1}", "01", "+1", "1.", ".5", "tru", '"a\nb"', "[1] 2", "//"]
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(BadJson):
        loads(text)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_a_hundred_levels_are_read_and_no_more(opening):
    closing = opening.replace('"a":', "").translate(str.maketrans("[{", "]}"))[::-1]
    levels = 100 // len(closing)
    loads(opening * levels + "1" + closing * levels)
    with pytest.raises(BadJson, match="100 levels"):
        loads(opening * levels + "[1]" + closing * levels)


def test_brackets_in_text_are_no_levels():
    assert loads('"' + "[" * 5_000 + '"') == "[" * 5_000


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_a_flood_of_brackets_is_refused(depth):
    with pytest.raises(BadJson):
        loads("[" * depth)
    with pytest.raises(BadJson):
        loads("[" * depth + "]" * depth)


def test_of_duplicate_names_the_last_counts():
    assert loads('{"a":1,"b":2,"a":3}') == {"a": 3, "b": 2}


@pytest.mark.parametrize("digits", ["0", "-1", str(2**60), str(2**64), "9" * 4_000, "9" * 4_300, LONG, "-" + LONG])
def test_an_integer_keeps_every_digit(digits):
    text = f'{{"a":[{digits}],"b":1.5,"c":[]}}'
    assert dumps(loads(text)) == text
    assert dumps(json_text.read(text)) == text
    assert canonical(loads(text)) == text


def test_a_long_integer_equals_itself_alone():
    assert loads(LONG) == LongInteger(LONG)
    assert hash(loads(LONG)) == hash(LongInteger(LONG))
    assert loads(LONG) != LongInteger("-" + LONG)


def test_a_long_integer_is_as_long_in_a_representation_as_it_is():
    """By which is counted what is remembered."""
    assert repr([LongInteger(LONG)]) == f"[{LONG}]"
    assert loads(LONG) != LONG


def test_an_integer_at_the_border_is_the_same_alone_and_in_company():
    border = "9" * 4_200
    alone, in_company = loads(border), loads(f"[{border},{LONG}]")[0]
    assert json_text.same(alone, in_company)


def test_a_text_that_looks_like_a_mark_stays_a_text():
    value = {"a": '"0"', "b": LongInteger(LONG)}
    assert loads(dumps(value)) == value


def test_long_integers_are_cut_down_for_judges_that_know_no_longer_ones():
    clipped = json_text.clipped({"a": [LongInteger(LONG), LongInteger("-" + LONG), 1, "x"]})
    assert clipped == {"a": [10**4_300 - 1, 1 - 10**4_300, 1, "x"]}


def test_what_is_no_value_is_not_written():
    for value in (object(), [LongInteger("1"), object()]):
        with pytest.raises(TypeError):
            dumps(value)


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x00"])
def test_no_character_breaks_a_line(character):
    text = dumps({character: f"a{character}b"})
    assert len(text.splitlines()) == 1
    assert loads(text) == {character: f"a{character}b"}


def test_text_is_compact_and_readable():
    assert dumps({"a": ["é", "\U0001f600", None, True]}) == '{"a":["é","\U0001f600",null,true]}'


# The canonical form: RFC 8785


def test_the_example_of_the_rfc():
    # RFC 8785, section 3.2.2 and 3.2.4
    sent = r"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical(loads(sent)) == expected


def test_names_are_sorted_by_utf_16_units():
    # RFC 8785, section 3.2.3
    names = ["\r", "1", "\x80", "\xf6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(canonical(dict.fromkeys(reversed(names), 0)))) == names


@pytest.mark.parametrize(
    ("number", "text"),
    [
        # RFC 8785, appendix B
        (0.0, "0"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (-5e-324, "-5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740992.0, "9007199254740992"),
        (-9007199254740992.0, "-9007199254740992"),
        (295147905179352830000.0, "295147905179352830000"),
        (9.999999999999997e22, "9.999999999999997e+22"),
        (1e23, "1e+23"),
        (1.0000000000000001e23, "1.0000000000000001e+23"),
        (999999999999999700000.0, "999999999999999700000"),
        (999999999999999900000.0, "999999999999999900000"),
        (1e21, "1e+21"),
        (9.999999999999997e-7, "9.999999999999997e-7"),
        (0.000001, "0.000001"),
        (333333333.3333332, "333333333.3333332"),
        (-0.0000033333333333333333, "-0.0000033333333333333333"),
        (1424953923781206.2, "1424953923781206.2"),
        (1.0, "1"),
        (1e-7, "1e-7"),
        (123456.789, "123456.789"),
    ],
)
def test_numbers_are_written_as_in_ecmascript(number, text):
    assert canonical(number) == text


def test_integers_are_written_in_full():
    assert canonical(2**100) == str(2**100)
    assert canonical(10**21) == "1" + "0" * 21


def test_nothing_is_escaped_that_need_not_be():
    assert canonical("\u2028\x7f\x1f/é") == '"\u2028\x7f\\u001f/é"'


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (False, 0, False),
        (None, False, False),
        ("", None, False),
        ([], {}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True),
        ([1, 2], [2, 1], False),
        ("1", 1, False),
        (2**60, 2**60 + 1, False),
        (0.1 + 0.2, 0.3, False),
        ("é", "e\u0301", False),
    ],
)
def test_equal_as_json(one, other, same):
    assert json_text.same(one, other) is same


def test_a_digest_names_its_kind():
    assert json_text.digest({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert json_text.digest({"a": 1, "b": 2}) == json_text.digest({"b": 2, "a": 1})

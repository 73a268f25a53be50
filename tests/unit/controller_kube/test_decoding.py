"""Depth costs an object nothing, and the process no more than the stack that it has."""

import sys
import threading

import msgspec
import pytest

from muster.controller.kube.decoding import DEEPEST, decode


class Flat(msgspec.Struct):
    size: int = 0


FLAT = msgspec.json.Decoder(Flat)


def nested(levels: int) -> bytes:
    return b'{"managed":' + b'{"f:a":' * levels + b"{}" + b"}" * levels + b',"size":1}'


def test_an_object_as_deep_as_the_api_server_takes_it_is_read() -> None:
    usual = sys.getrecursionlimit()
    assert decode(FLAT, nested(DEEPEST)).size == 1
    assert sys.getrecursionlimit() == usual


def test_what_is_deeper_does_not_decode() -> None:
    usual = sys.getrecursionlimit()
    with pytest.raises(msgspec.MsgspecError, match="deeper than 10000 levels"):
        decode(FLAT, nested(2 * DEEPEST))
    assert sys.getrecursionlimit() == usual


def test_what_is_no_utf_8_does_not_decode() -> None:
    with pytest.raises(msgspec.MsgspecError, match="not UTF-8"):
        decode(msgspec.json.Decoder(str), b'"\xff"')


def test_a_deep_object_of_the_wrong_type_says_so() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"Expected `int`.*size"):
        decode(FLAT, nested(DEEPEST).replace(b"1", b'"x"'))


def test_skipping_takes_a_sixteenth_of_the_stack_of_a_main_thread() -> None:
    """Where this fails, the interpreter dies: an end of the process that no `except` sees."""
    read: list[int] = []
    before = threading.stack_size(8 * 2**20 // 16)
    try:
        thread = threading.Thread(target=lambda: read.append(decode(FLAT, nested(DEEPEST)).size))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert read == [1]

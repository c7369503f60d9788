"""Unpacking of device code: everything that zlib packs, and nothing else."""

from __future__ import annotations

import ctypes
import random
import zlib

import pytest

STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED)


def pack(data, level=9, strategy=zlib.Z_DEFAULT_STRATEGY):
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
    return packer.compress(data) + packer.flush()


def unpack(unit, packed, size):
    """The data; None where the stream is not one of exactly so much."""
    guard = b"guard"
    out = ctypes.create_string_buffer(bytes(size) + guard)
    good = unit.unit_inflate(packed, len(packed), out, size)
    assert out.raw[size : size + len(guard)] == guard
    return out.raw[:size] if good else None


def texts():
    rng = random.Random(5)
    words = [b"ld.global.f32", b"%r", b"mov.u64", b"\n", b", ", b"fma.rn", b"12", b"0x7f"]
    yield "empty", b""
    yield "byte", b"a"
    yield "zeros", bytes(1 << 20)
    yield "noise", rng.randbytes(70000)
    yield "words", b"".join(rng.choices(words, k=60000))
    yield "far", (noise := rng.randbytes(32768)) + noise


@pytest.mark.parametrize("data", [pytest.param(d, id=n) for n, d in texts()])
def test_what_zlib_packs_comes_back(unit, data):
    for level in (0, 1, 6, 9):
        for strategy in STRATEGIES:
            packed = pack(data, level, strategy)
            assert unpack(unit, packed, len(data)) == data
            assert unpack(unit, packed, len(data) + 1) is None
            if data:
                assert unpack(unit, packed, len(data) - 1) is None


def test_a_stream_that_is_cut_off_or_damaged_is_refused_or_fills_what_it_may(unit):
    rng = random.Random(7)
    text = dict(texts())["words"][:4000]
    streams = [pack(text, level, s) for level in (1, 9) for s in STRATEGIES]
    for stream in streams:
        for size in range(len(stream)):
            assert unpack(unit, stream[:size], len(text)) is None
    for _ in range(2000):
        stream = bytearray(rng.choice(streams))
        for _ in range(rng.randrange(1, 4)):
            stream[rng.randrange(len(stream))] ^= 1 << rng.randrange(8)
        found = unpack(unit, bytes(stream), len(text))
        assert found is None or len(found) == len(text)


@pytest.mark.parametrize("stream", [b"", b"\x07", b"\x01\x05\x00\x05\x00hello", b"\xff" * 40])
def test_what_is_no_stream_is_refused(unit, stream):
    assert unpack(unit, stream, 5) is None

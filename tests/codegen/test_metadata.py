"""The JSON of a function."""

from __future__ import annotations

import json
from dataclasses import replace

from kdsl.codegen.metadata import metadata, metadata_text
from tests.codegen import samples


def test_metadata_of_attention():
    data = metadata(samples.attention())
    assert data["kdsl"] == {"schema": 1, "version": "0.1.0"}
    assert data["name"] == "attention"
    assert data["signature"] == samples.attention().signature.text
    assert data["params"][:1] == [
        {"name": "q", "kind": "in", "type": "tensor", "dtype": "T", "shape": ["B", "H", "M", "D"]}
    ]
    assert data["params"][3:] == [
        {"name": "scale", "kind": "scalar", "type": "scalar", "dtype": "f32"},
        {"name": "o", "kind": "out", "type": "tensor", "dtype": "T", "shape": ["B", "H", "M", "D"]},
        {"name": "lse", "kind": "out", "type": "tensor", "dtype": "f32", "shape": ["B", "H", "M"]},
        {"name": "causal", "kind": "static", "type": "scalar", "dtype": "bool", "default": False,
         "keyword_only": True},
    ]  # fmt: skip
    assert data["dims"] == ["B", "H", "M", "D", "G", "N"]
    assert data["dtypes"] == {"T": ["f32", "bf16"]}
    assert data["require"] == ["H % G == 0", "scale > 0"]
    assert data["returns"] == ["o", "lse"]
    assert data["specialisations"][0] == {
        "dtypes": {"T": "f32"},
        "statics": {"causal": False},
        "dims": {"D": 64},
    }
    assert len(data["specialisations"]) == 6
    assert (data["source"]["file"], data["source"]["line"]) == ("kernels.py", 12)


def test_shapes_keep_numbers_and_expressions():
    shapes = {p["name"]: p.get("shape") for p in metadata(samples.pick())["params"]}
    assert shapes["half"] == ["N", "D // 2"]
    assert shapes["count"] == []
    assert shapes["o"] == ["K", "N // G"]
    assert shapes["bias"] is None


def test_the_type_schema_has_the_result_first():
    def names(unit):
        args = json.loads(metadata(unit)["type_schema"])["args"]
        return [a["type"] if "args" not in a else (a["type"], a["args"][0]["type"]) for a in args]

    tensor, out = "DLTensor*", ("Optional", "DLTensor*")
    assert names(samples.axpy()) == [("Optional", "ffi.Tensor"), "float", tensor, tensor, out]
    assert names(samples.attention())[0] == ("Optional", "ffi.Array")
    assert names(samples.pick())[4:] == ["bool", out, "int"] + [
        ("Optional", name) for name in ("int", "int", "float")
    ]


def test_the_text_in_a_file_is_the_same_data():
    for unit in samples.kernels():
        assert json.loads(metadata_text(unit)) == metadata(unit)


def test_it_says_where_there_is_no_gradient():
    assert metadata(samples.axpy())["differentiable"] is None
    constant = replace(samples.axpy(), differentiable=False)
    assert metadata(constant)["differentiable"] is False
    assert '"differentiable": false' in metadata_text(constant)

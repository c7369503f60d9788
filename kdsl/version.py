"""The version, in the one place that both the package and generated code take it from."""

VERSION = "0.1.0"

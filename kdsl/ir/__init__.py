"""The IR: nodes and types, rules (`verify`), text (`printer`, `parser`) and meaning (`interp`).

Import the module that has what is needed; only `parser` loads lark, only `interp` NumPy.
"""

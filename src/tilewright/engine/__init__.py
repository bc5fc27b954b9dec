"""`tw.matmul`: NumPy's rules in front of the devices.

`matmul` takes operands through `operands` (what they are), `promotion` and `axes` (NumPy's rules) and `planning` to a
device. `known_layouts` is the short way for plain arrays whose layout has been multiplied before.
"""

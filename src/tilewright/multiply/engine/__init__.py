"""`tw.matmul`: NumPy's rules in front of the devices.

`matmul` takes operands through `operands` (what they are), `promotion` and `shapes` (NumPy's rules) and `request` to a
device. `known_layouts` is the fast path for plain arrays whose layout has been multiplied before.
"""

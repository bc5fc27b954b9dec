"""torch's device `cuda` as the simulated GPU answers it: tensors in its memory, and the functions of `torch.cuda`."""

"""torch's device `cuda` on the simulated GPU: tensors in its memory, and the functions of `torch.cuda`."""

"""Triton's driver as the simulated GPU answers it: its compiler's PTX is what runs."""

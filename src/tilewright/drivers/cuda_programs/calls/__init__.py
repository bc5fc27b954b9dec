"""What the simulated GPU answers: functions by the names of CUDA's, in modules by subject."""

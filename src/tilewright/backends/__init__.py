"""What products run on: one package a device. Nobody else names a device."""

"""A replacement for the vendor's driver library, for code that calls it in C: our driver calls under its symbols."""

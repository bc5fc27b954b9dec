"""The vendor's driver library, for programs that call it in C: our driver calls under its name and its symbols."""

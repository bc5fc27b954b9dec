"""What test suites have of Tilewright: pytest's options."""

"""The devices that products run on, a package each. Modules outside name devices only by the table `inventory`."""

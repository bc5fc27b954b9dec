"""Checkouts that were installed before have this entry point: the plugin is `tilewright.cli.pytest_plugin.plugin`."""

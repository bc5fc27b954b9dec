"""The entry point of older installations. The plugin is now `tilewright.cli.pytest_plugin.plugin`."""

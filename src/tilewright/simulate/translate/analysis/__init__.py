"""Analyses of a kernel before it is translated: flow, shapes, webs, layout."""

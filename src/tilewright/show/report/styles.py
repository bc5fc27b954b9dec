"""Colours of reports: each reads on a light background and on a dark one, on terminals and in notebooks."""

from __future__ import annotations

#: By what they say. Rich's words for them; on terminals of 16 colours it takes the nearest.
ERROR_COLOUR, WARNING_COLOUR, NOTE_COLOUR = "#e0483f", "#b36b00", "#2f80c8"
GOOD, PLACE, BAR = "#2a8a3e", "#178a8a", "#2f80c8"
ERROR, WARNING, NOTE = (f"bold {colour}" for colour in (ERROR_COLOUR, WARNING_COLOUR, NOTE_COLOUR))
#: Of times that a model gives, beside measured ones.
PREDICTED = "#9a4fc4"
HEADING, SPECIMEN, QUIET = "bold", "italic", "dim"
#: Variables that a page may set for its own ground; elsewhere the colours are as they are.
VARIABLES = {
    ERROR_COLOUR: "bad",
    WARNING_COLOUR: "warning",
    NOTE_COLOUR: "accent",
    GOOD: "good",
    PLACE: "place",
    PREDICTED: "predicted",
}
#: By the severity of findings.
SEVERITIES = {"error": ERROR, "warning": WARNING, "note": NOTE}

"""Results as text: tables and notes for a terminal, HTML, and JSON for programs. Nothing is measured here."""

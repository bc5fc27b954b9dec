"""Findings as text: tables and notes for a terminal, JSON for programs. Nothing is measured or computed here."""

"""Bytes -> events; opens no socket and no file, and has no clock of its own."""

"""From PTX text to a program."""

"""The parser from PTX text to a program."""

"""The instructions: how each is compiled and what it does."""

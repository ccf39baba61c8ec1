"""The threads of a machine, their registers and their synchronisation."""

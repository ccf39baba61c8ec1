"""The threads of a machine, their registers, and what orders them among themselves."""

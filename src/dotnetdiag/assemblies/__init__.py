"""What the file of a .NET assembly says of itself, and its PDB of its source, read from their metadata (ECMA-335).

May import nothing of ours: what is wrong with a file is a sentence, not an error.
"""

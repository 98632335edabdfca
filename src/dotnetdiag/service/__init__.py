"""What is served to other programs: a face, as the command line is one.

May import ``recipes``, the types of results, and what they are made of; ``cli`` starts it, and it never imports ``cli``.
"""

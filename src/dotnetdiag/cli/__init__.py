"""The command line: options -> recipe -> text. May import ``recipes`` and result types; click and rich lazily."""

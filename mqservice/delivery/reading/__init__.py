"""Shows messages without delivering them: browse, search, pull, dead letters."""

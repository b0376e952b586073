"""The pages of the console; templates and styles are in ``frontend``."""

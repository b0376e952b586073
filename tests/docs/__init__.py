"""Keeps what is written for people right: links, commands, names and numbers against the code.

docs/, README, … ──▶ markdown ──▶ check (links, anchors, nav) ──▶ make docs, test_pages
                          └─────▶ commands (command line, make, variables) ──▶ test_commands
limits of the code ──▶ limits ──▶ docs/limits.md
"""

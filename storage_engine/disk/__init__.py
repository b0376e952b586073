"""Files of a store at the level of the operating system: mapped, allocated, synced, locked.

Everything that changes a file goes through ``files``, so that tests can injure it. Knows nothing of
what is in a file.
"""

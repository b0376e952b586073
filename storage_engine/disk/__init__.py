"""Files of a store as the operating system has them: mapped, allocated, synced, locked.

Everything that changes a file goes through ``files``, so that tests can injure it. Knows nothing of
what is in a file.
"""

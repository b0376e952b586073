"""Small parts without knowledge of any app: problems, times, keys' text form, signing, caches."""

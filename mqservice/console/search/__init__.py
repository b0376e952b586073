"""Search by name: topics, groups, pages, actions, and where a message may be."""

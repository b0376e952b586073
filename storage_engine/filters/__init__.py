"""Which messages a subscription gets: by tag, or by an SQL92 condition on their properties.

Pure functions over a filter's text and a record's encoded properties; no file and no clock is
touched. ``message_filter`` is the door.
"""

"""Numbers that change while a page is open: one measurement per namespace, one socket per page."""

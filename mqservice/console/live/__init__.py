"""Numbers that change while somebody looks: one measuring a namespace, one socket a page."""

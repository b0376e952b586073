"""What each tenant has used, by hour: messages, bytes, calls and storage, kept in PostgreSQL."""

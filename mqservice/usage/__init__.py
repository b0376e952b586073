"""What each tenant has used, per hour: messages, bytes, calls and storage, stored in PostgreSQL."""

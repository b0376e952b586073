"""The WebSocket face of delivery: sessions, subscriptions, frames."""

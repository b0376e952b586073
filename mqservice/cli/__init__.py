"""The command line, `mqservice`: run the service (`up`, `status`, `stop`) or use it (the others).

main ──▶ up, status ──▶ mqservice.supervisor
  └────▶ topic, produce, consume ──▶ HTTP and WebSocket of a running service
"""

"""What becomes of received messages: ack, nack, extend, dead letter."""

"""Brings RocketMQ's stores into a store of this engine, and writes stores that RocketMQ opens."""

"""Imports RocketMQ's stores into a store of this engine, and exports stores that RocketMQ can
open.
"""

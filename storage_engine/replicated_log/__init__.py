"""A shard's log in a store that outlives the machine: in objects or in Kafka."""

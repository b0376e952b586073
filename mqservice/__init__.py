"""The service: who may do what, the protocols, the console. Bytes live in ``storage_engine``."""

"""The service: who may do what, the protocols, the console. The bytes live in ``storage_engine``."""

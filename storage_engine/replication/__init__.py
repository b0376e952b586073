"""Ships a store's bytes to a replicated log, and makes a store of them somewhere else."""

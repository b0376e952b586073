"""The data of the charts."""

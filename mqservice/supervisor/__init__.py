"""One command that runs the whole service: chooses ports, starts, supervises and stops its
processes.

    mqservice up ──▶ supervisor ──▶ postgres, valkey ──▶ migrate ──▶ engine ──▶ bootstrap
                         │                                 ──▶ web-1..web-N ──▶ clock, worker, beat
                         └──▶ quickstart.json, log/, the panel on the console

A stage starts when the gate of the one before it is open; stopping goes the other way. Each child
is the leader of its own session, so Ctrl-C reaches the supervisor only, and the kernel ends every
child should the supervisor itself be killed. Nothing in here imports Django: it is started as a
program.
"""

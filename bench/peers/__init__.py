"""This service beside other queues, on one machine and in one run: ``python -m bench.peers``.

    __main__ ─▶ peers started (ours, rabbitmq, nats, activemq, bare) ─▶ ways in
                   └─▶ workloads: every way by turns, the same bodies and generator ─▶ figures
                          └─▶ evidence/peers.json ─▶ render ─▶ docs/peers.md, docs/peers-*.svg

A *way* is a protocol of a peer with one durability: what it promises stands beside it. Peers
come from the operating system's packages; one that is missing is skipped with a line that says what
to install. They run with directories and ports of their own and are gone afterwards.
"""

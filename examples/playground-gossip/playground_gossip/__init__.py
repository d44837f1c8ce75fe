"""Gossip averaging between neighbours, a parallel backend for Playground."""

from playground import Backend, hookimpl


@hookimpl
def playground_backends():
    return [
        Backend(
            "gossip",
            "playground_gossip.gossip:Gossip",
            summary="Replicas step by themselves and average their weights with their two neighbours in a ring",
            exact=False,
        )
    ]

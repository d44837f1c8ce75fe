import torch
from playground_gossip.gossip import Gossip

from playground.conformance import BackendConformance


class TestGossip(BackendConformance):
    component = "gossip"


def test_each_replica_gets_the_mean_of_itself_and_its_neighbours():
    weights = [[torch.tensor([value])] for value in (3.0, 6.0, 9.0, 12.0)]
    moved = Gossip().mix(weights)
    assert [float(own[0]) for own in weights] == [(3 + 12 + 6) / 3, (6 + 3 + 9) / 3, (9 + 6 + 12) / 3, (12 + 9 + 3) / 3]
    assert moved == 4 * 2 * 4


def test_two_replicas_are_each_others_only_neighbour():
    weights = [[torch.tensor([value])] for value in (3.0, 6.0)]
    assert Gossip().mix(weights) == 2 * 4
    assert [float(own[0]) for own in weights] == [4.5, 4.5]
    assert Gossip().mix(weights[:1]) == 0


def test_a_replica_steps_along_the_mean_gradient_of_its_own_rows():
    gradients = [[torch.tensor([1.0])], [torch.tensor([2.0])]]
    assert Gossip().reduce(gradients) == 0
    assert [float(own[0]) for own in gradients] == [2, 4]

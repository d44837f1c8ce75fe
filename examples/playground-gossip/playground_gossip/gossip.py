"""Gossip averaging on a ring, after Lian et al. 2017, arXiv 1705.09056, algorithm 1 (D-PSGD)."""

from playground import ReplicaBackend


class Gossip(ReplicaBackend):
    """Each replica steps along its own gradient, then averages its weights with those of its two neighbours."""

    def reduce(self, gradients):
        # A replica's gradient is of its rows ÷ the rows of all; as many times that is the mean over its own rows where
        # shards are of one size. Where not, who has more rows weighs more: the mean over replicas is that over rows.
        for own in gradients:
            for gradient in own:
                gradient.mul_(len(gradients))
        return 0

    def mix(self, parameters):
        before = [[weights.clone() for weights in own] for own in parameters]
        moved = 0
        for replica, own in enumerate(parameters):
            # Of two replicas each has one neighbour, a single one has none.
            neighbours = {(replica - 1) % len(before), (replica + 1) % len(before)} - {replica}
            for weights, *others in zip(own, *(before[one] for one in neighbours), strict=True):
                for other in others:
                    weights.add_(other.to(weights.device))
                    moved += other.numel() * other.element_size()
                weights.div_(1 + len(others))
        return moved

"""Gossip averaging on a ring, after Lian et al. 2017, arXiv 1705.09056, algorithm 1 (D-PSGD)."""

from playground import ReplicaBackend


class Gossip(ReplicaBackend):
    """Each replica steps along its own gradient, then averages its weights with those of its two neighbours."""

    def reduce(self, gradients):
        # A replica's gradient is of its rows ÷ the rows of all; as many times that is the mean over its own rows.
        for own in gradients:
            for gradient in own:
                gradient.mul_(len(gradients))
        return 0

    def mix(self, parameters):
        before = [[weights.clone() for weights in own] for own in parameters]
        moved = 0
        for replica, own in enumerate(parameters):
            neighbours = (before[replica - 1], before[(replica + 1) % len(before)])
            for weights, *others in zip(own, *neighbours, strict=True):
                for other in others:
                    weights.add_(other.to(weights.device))
                    moved += other.numel() * other.element_size()
                weights.div_(3)
        return moved

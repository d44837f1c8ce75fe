"""The optimizers that come with the project: a table of torch's own.

Those of *Dive into Deep Learning* carry the book's hyperparameters, as its PyTorch code passes them to
`train_concise_ch11` on airfoil with minibatches of 10 (chapter 12, the section is given); the others keep torch's
defaults. SparseAdam is not here: it takes sparse gradients only, which no model here has.
"""

from __future__ import annotations

from playground import Optimizer, hookimpl


@hookimpl
def playground_optimizers() -> list[Optimizer]:
    return [
        # The book's.
        Optimizer(
            "sgd",  # Robbins & Monro 1951, doi 10.1214/aoms/1177729586; book: 12.5
            "torch.optim:SGD",
            summary="Minibatch stochastic gradient descent: a step against the gradient",
            defaults={"lr": 0.01},
            default=True,
        ),
        Optimizer(
            "momentum",  # Polyak 1964, doi 10.1016/0041-5553(64)90137-5; book: 12.6
            "torch.optim:SGD",
            summary="SGD along a decaying sum of past gradients (heavy ball; Nesterov's with nesterov=true)",
            defaults={"lr": 0.005, "momentum": 0.9},
        ),
        Optimizer(
            "adagrad",  # Duchi, Hazan & Singer 2011, JMLR 12; book: 12.7
            "torch.optim:Adagrad",
            summary="A rate per weight that falls with the sum of all its squared gradients",
            defaults={"lr": 0.1},
        ),
        Optimizer(
            "rmsprop",  # Tieleman & Hinton 2012, Neural Networks for Machine Learning, lecture 6.5; book: 12.8
            "torch.optim:RMSprop",
            summary="A rate per weight from a decaying mean of its squared gradients",
            defaults={"lr": 0.01, "alpha": 0.9},
        ),
        Optimizer(
            "adam",  # Kingma & Ba 2015, arXiv 1412.6980; book: 12.10
            "torch.optim:Adam",
            summary="Momentum and a rate per weight, bias-corrected; weight_decay is an L2 penalty in the gradient",
            defaults={"lr": 0.01},
        ),
        # The rest of torch's, at torch's defaults.
        Optimizer(
            "adadelta",  # Zeiler 2012, arXiv 1212.5701
            "torch.optim:Adadelta",
            summary="RMSprop whose steps are scaled by those it took before, so that it hardly needs a rate",
        ),
        Optimizer(
            "adafactor",  # Shazeer & Stern 2018, arXiv 1804.04235
            "torch.optim:Adafactor",
            summary="A rate per weight from row and column means of squared gradients, which saves memory",
        ),
        Optimizer(
            "adamax",  # Kingma & Ba 2015, arXiv 1412.6980, section 7.1
            "torch.optim:Adamax",
            summary="Adam with a decaying maximum of gradients in the place of their mean square",
        ),
        Optimizer(
            "adamw",  # Loshchilov & Hutter 2019, arXiv 1711.05101
            "torch.optim:AdamW",
            summary="Adam with decoupled weight decay: weights shrink by themselves, the gradient is left alone",
        ),
        Optimizer(
            "asgd",  # Polyak & Juditsky 1992, doi 10.1137/0330046
            "torch.optim:ASGD",
            summary="SGD with a falling rate; the average of the weights is kept in its state, not put into the model",
        ),
        Optimizer(
            "lbfgs",  # Liu & Nocedal 1989, doi 10.1007/BF01589116
            "torch.optim:LBFGS",
            summary="Quasi-Newton from past gradients; evaluates the loss several times a step; for full batches",
            closure=True,
        ),
        Optimizer(
            "muon",  # Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/
            "torch.optim:Muon",
            summary="Momentum made orthogonal by Newton-Schulz; for matrices only, e.g. --model linear:bias=false",
        ),
        Optimizer(
            "nadam",  # Dozat 2016, Incorporating Nesterov Momentum into Adam
            "torch.optim:NAdam",
            summary="Adam with Nesterov's momentum",
        ),
        Optimizer(
            "radam",  # Liu et al. 2020, arXiv 1908.03265
            "torch.optim:RAdam",
            summary="Adam that holds its rate per weight back until its variance is tame: a built-in warm-up",
        ),
        Optimizer(
            "rprop",  # Riedmiller & Braun 1993, doi 10.1109/ICNN.1993.298623
            "torch.optim:Rprop",
            summary="Steps by the gradient's sign, longer while it stays, shorter when it turns; for full batches",
        ),
    ]

"""TopoOpt: the topology and the parallelisation of a training job, chosen together."""

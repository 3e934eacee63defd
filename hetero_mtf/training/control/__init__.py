"""One controller of a training: it tries plans as steps, stays with the fastest, and watches for devices that change."""

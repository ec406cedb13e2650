"""Names of a model's files; apart from the model, whose reading needs numpy."""

MODEL_FILE = "model.npz"
CONFIG_FILE = "config.json"

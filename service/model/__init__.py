"""The model: it learns, predicts, is monitored and explains."""

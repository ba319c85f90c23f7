"""A CSV file to learn, and the configuration of a model that learns it."""

import pytest
import yaml


@pytest.fixture(name="words")
def words_fixture(tmp_path):
    path = tmp_path / "words.csv"
    rows = [
        f"{n * 37 % 11 - 5},{'red' if n % 3 else 'blue'},{('ham', 'spam', 'ham', 'eggs')[n % 4]}"
        for n in range(200)
    ]
    path.write_text("\n".join(["size,colour,label", *rows]) + "\n")
    return path


def configuration(path, redis_url, **changes):
    settings = {
        "name": "m",
        "learner": {"kind": "scaled", "base": "pa1:C=0.1"},
        "features": {"columns": ["size"], "bits": 8},
        "label": {"positive": "spam", "negative": "ham"},
        "source": {"url": f"{redis_url}/events"},
        "store": {"url": redis_url},
        "api": {"port": 0},
    }
    path.write_text(yaml.safe_dump(settings | changes))
    return path

"""Ask a running model, and teach it: `python docs/client.py`, while `onepass run` is at work.

The model is that of the payments in docs/tour, which listens on port 8001.
"""

import argparse
import os
import sys

from service.client import Client, RequestError, Tls, UnreachableError

PAYMENT = {
    "amount": 420.5,
    "age_days": 3.0,
    "hour": 2.0,
    "distance_km": 900.0,
    "attempts": 6.0,
    "country": "br",
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Ask the payments model, and send it an event.")
    default = os.environ.get("CLIENT_URL", "http://127.0.0.1:8001")
    parser.add_argument(
        "url", nargs="?", default=default, help="default: CLIENT_URL, or http://127.0.0.1:8001"
    )
    parser.add_argument(
        "--key",
        default=os.environ.get("CLIENT_KEY"),
        help="default: CLIENT_KEY, which no `ps` shows",
    )
    parser.add_argument("--ca-file", help="PEM file of who signed the server's certificate")
    parser.add_argument(
        "--cert-file", help="PEM file of the client's own certificate, if the service asks for one"
    )
    parser.add_argument("--key-file", help="PEM file of its key")
    given = parser.parse_args(arguments)
    tls = Tls(given.ca_file, given.cert_file, given.key_file)
    try:
        client = Client(given.url, key=given.key, timeout=5.0, tls=tls)
    except (ValueError, OSError) as wrong:  # no URL, or files that are none
        parser.error(str(wrong))
    with client as model:
        try:
            ask_and_teach(model)
        except RequestError as refused:  # the answer is no: status, code and message say why
            print(f"refused: {refused}", file=sys.stderr)
            return 1
        except UnreachableError as away:  # no answer within the timeout, however often it was tried
            print(f"away: {away}", file=sys.stderr)
            return 1
    return 0


def ask_and_teach(model: Client) -> None:
    before = model.predict(PAYMENT)
    print(f"{before.label}, score {before.score:.3f}, after {before.model.version} events")
    rows = [PAYMENT | {"amount": float(amount)} for amount in range(0, 2000, 10)]
    flagged = sum(answer.label == "fraud" for answer in model.predict_batch(rows))
    print(f"{flagged} of {len(rows)} amounts look like fraud")
    place = model.send_event(PAYMENT, "fraud", id="payment-17")
    print(f"the log has the event: partition {place.partition}, position {place.position}")


if __name__ == "__main__":
    sys.exit(main())

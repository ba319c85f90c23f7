"""Ask a running model, and teach it: `python docs/client.py http://127.0.0.1:8000`, while `onepass run` is at work.

The model is that of the payments in docs/tour. A key, where the service asks for one, is read from ONEPASS_KEY.
"""

import os
import sys

from service.client import Client, Refused, Unreachable

PAYMENT = {"amount": 420.5, "age_days": 3.0, "hour": 2.0, "distance_km": 900.0, "attempts": 6.0, "country": "br"}


def main(url: str) -> int:
    with Client(url, key=os.environ.get("ONEPASS_KEY"), timeout=5.0) as model:
        try:
            before = model.predict(PAYMENT)
            print(f"{before.label}, score {before.score:.3f}, after {before.model.version} events")
            rows = [PAYMENT | {"amount": float(amount)} for amount in range(0, 2000, 10)]
            flagged = sum(answer.label == "fraud" for answer in model.predict_batch(rows))
            print(f"{flagged} of {len(rows)} amounts look like fraud")
            place = model.send_event(PAYMENT, "fraud", id="payment-17")
            print(f"the log has the event: partition {place.partition}, position {place.position}")
        except Refused as refused:  # the answer is no: status, code and message say why
            print(f"refused: {refused}", file=sys.stderr)
            return 1
        except Unreachable as away:  # no answer within the timeout, however often it was tried
            print(f"away: {away}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

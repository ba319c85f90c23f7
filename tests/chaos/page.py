"""docs/reliability.md: the promise in words, the rule for each fault, and what was measured."""

RULES = (
    (
        "learner killed (`kill -9`, out of memory, power)",
        "the next one goes on from the newest checkpoint",
        "`onepass_uncheckpointed_events` starts at 0",
    ),
    (
        "learner stopped for a while, a standby took over",
        "the late one's writes are refused; it drops its memory and stands by",
        "`onepass_fenced_total`, `onepass_lease_held`",
    ),
    (
        "SIGTERM",
        "last checkpoint, lease given back, requests drained, exit 0",
        "nothing to redo",
    ),
    (
        "SIGTERM or a due checkpoint in a batch that takes long (texts of 1 MB)",
        (
            "the batch is learned in pieces of 0.25 s; what was learned is saved, the rest is"
            " polled again"
        ),
        "exit 0 within 10 s",
    ),
    (
        "a web page of another site asks a service without keys",
        "its `Host`, `Origin` or `Sec-Fetch-Site` is refused: 421 or 403",
        '`onepass_http_refusals_total{reason="host"}`, `{reason="cross_site"}`',
    ),
    (
        "Redis away",
        (
            "learning and predictions go on; learning pauses after"
            " `checkpoint.max_uncheckpointed_seconds` or `_events`"
        ),
        "`onepass_redis_up` 0, `onepass_checkpoint_failures_total`",
    ),
    (
        "Redis refuses writes (MISCONF after a failed save, `maxmemory` reached)",
        (
            "as Redis away: the line and `/status` name the refusal, and learning goes on when"
            " Redis takes writes again"
        ),
        "`onepass_redis_up` 0, `onepass_checkpoint_failures_total`",
    ),
    (
        "Redis went back in time or was emptied",
        (
            "the living learner writes its newer state on top; a new one starts from what is there,"
            " a file copy or anew"
        ),
        "`onepass_fenced_total`, `onepass_checkpoint_generation` falls",
    ),
    (
        "checkpoint damaged",
        (
            "the newest good one is loaded; if none is good, the learner stops and never starts"
            " from nothing by itself"
        ),
        "`onepass_checkpoint_corrupt_total`, exit 3",
    ),
    (
        "Kafka away, also at the start",
        "HTTP answers within 3 s, predictions go on, the log is tried again for ever",
        "`onepass_kafka_up` 0, `onepass_source_up` 0",
    ),
    (
        (
            "Kafka refuses the login, also in mid-run; the listener speaks another protocol; the"
            " certificate does not fit"
        ),
        (
            "tried again for ever; the line names the user or the setting (`security.…`), never the"
            " password"
        ),
        "`onepass_kafka_up` 0",
    ),
    (
        "acknowledged records lost by an unclean leader election",
        "as a log that was cut off, by `source.on_data_loss`",
        "exit 3, or `onepass_events_lost_total{reason}`",
    ),
    (
        "a small compressed batch that would fill the memory",
        (
            "above 64 MiB, or 1,000 headers a record, it is unreadable; others are unpacked two at"
            " a time (kafka-python)"
        ),
        "exit 3, or `onepass_events_lost_total{reason}`",
    ),
    (
        "an operator imports, rolls back and freezes at the same moment",
        (
            "each is done or refused (exit 1); the learner begins from the newest, or stops if that"
            " has other settings"
        ),
        "exit 3, `onepass_fenced_total`",
    ),
    (
        "the log's client hangs",
        "after 30 s the process ends with status 1, to be started again",
        "exit 1",
    ),
    (
        "message that is no event",
        (
            "counted by reason, kept in the dead-letter log *before* the checkpoint that passes it,"
            " never learned"
        ),
        "`onepass_rejects_total{reason}`",
    ),
    (
        "retention passed the position, topic recreated, log cut off, batch unreadable",
        "by `source.on_data_loss`: stop (default), or go on with the gap recorded",
        "exit 3, or `onepass_events_lost_total{reason}`",
    ),
    (
        "a Redis stream trimmed, recreated or restored from an older dump under a reader",
        (
            "noticed before any later entry is delivered; by `source.on_data_loss`: stop, or record"
            " the gap"
        ),
        "exit 3, or `onepass_events_lost_total{reason}`",
    ),
    (
        "a file rewritten or cut in place while it is read",
        "stop; a file that only grows, or is replaced by another, is read on as it was",
        "exit 3",
    ),
    (
        "partition added",
        "read from its beginning",
        "`onepass_lag_events{partition}`",
    ),
    (
        "clock of Redis set back or forward",
        (
            "a lease with more time left than it can have counts as over; if one ends early, the"
            " token decides who writes"
        ),
        "`onepass_fenced_total`",
    ),
    (
        "file of keys unreadable or broken",
        (
            "the keys read before stay good for 300 s, then every key is refused until the file can"
            " be used"
        ),
        "`onepass_keys_file_up` 0",
    ),
    (
        "disk of the kernel cache full, or a file in it damaged",
        "the kernels are compiled and not kept",
        "one warning in the log",
    ),
    (
        "too little memory",
        (
            "at the start: exit 1 and one line; later the kernel kills the learner, and the next"
            " one goes on"
        ),
        "exit 1, or killed",
    ),
    (
        "network cut, silent, slow, reset; a reply lost",
        "every wait has an end; a commit that was sent twice is done once",
        "`onepass_redis_up`, `onepass_kafka_up`",
    ),
)
"""Fault, what happens, how it shows."""

PROMISE = (
    "# What happens when something breaks\n"
    "\n"
    "*The tables at the end are written by `make chaos`; do not edit this page by hand.*\n"
    "\n"
    "**The promise.** Whatever is killed, cut, stopped or lost, the model in Redis is always the"
    " result of learning every\n"
    "message before its positions exactly once, in one definite order. So after any number of"
    " faults the weights are bit for\n"
    "bit those of a quiet pass over the same messages, and `events`, `errors` and `rejects` are"
    " exact. A fault costs time:\n"
    "what was learned after the last checkpoint is learned again.\n"
    "\n"
    "Why it holds: a checkpoint holds the state *and* the positions in the log, and becomes"
    " visible whole, by one script in\n"
    "Redis, or not at all. Only the learner that acquired last can write, whatever an older one"
    " still believes. A learner\n"
    "starts from a checkpoint and from nothing else; offsets committed to Kafka are for lag tools"
    " and are never read.\n"
    "\n"
    "## The rule for each fault\n"
    "\n"
    "{rules}\n"
    "\n"
    "## What is not promised\n"
    "\n"
    "* **Dead letters come at least once.** After a kill some may be there twice; the key,"
    " `model:partition:position`, tells.\n"
    "* **Events posted over HTTP come at least once.** Whoever sends one again after no answer, or"
    " after 503 `log_down`, may\n"
    "  have put it into the log twice; it is then learned twice.\n"
    "* **Metrics and logs** of a process end with it. What must survive is in the checkpoint"
    " (`onepass_model_events`, …).\n"
    "* **Redis without persistence** keeps nothing over a restart. A living learner fills it"
    " again; with none alive, the\n"
    "  model is built anew from the log or from `store.backup`, as far as the log reaches.\n"
    "* **Retention shorter than an outage** loses events before they are learned. It is noticed"
    " and counted, not mended: keep\n"
    "  the log longer than the oldest checkpoint plus the longest outage you want to survive.\n"
    "* **Duplicates made by producers** are two messages, and are learned twice. Use idempotent"
    " producers.\n"
    "* **Several partitions** interleave as they are fetched, so two runs learn in different"
    " orders. The order taken is in\n"
    "  the checkpoint, and `onepass audit` builds the same bits from it.\n"
    "* **Other hardware or library versions** may round differently; bit-identity is promised on"
    " the same ones.\n"
    "* **A prediction** may come from a state that no checkpoint has yet; after a kill the count"
    " may step back.\n"
    "\n"
    "## What was measured\n"
    "\n"
    "Each scenario ends with the same proof: the weights, counts and rejects of the newest"
    " checkpoint are compared bit for\n"
    "bit with one quiet pass over the same messages (or with `onepass audit`), and the sum of the"
    " serials that the\n"
    "messages carry is read out of the model's state. `different` counts the runs that were not"
    " identical. The real Apache\n"
    "Kafka and the real Redis are used throughout. A part runs alone with `make chaos PART=…`; a"
    " few rounds of each run in\n"
    "`make test`.\n"
)


def page(parts):
    """The whole page; `parts` as they lie in docs/reliability.json."""
    rules = [
        "| fault | what happens | how it shows |",
        "|---|---|---|",
        *(f"| {' | '.join(rule)} |" for rule in RULES),
    ]
    lines = [PROMISE.replace("{rules}", "\n".join(rules))]
    for name, part in parts.items():
        lines.append(f"\n### {name}\n")
        lines.append(
            f"`make chaos PART={name}` · {part['date']} (UTC) · {part['machine']} ·"
            f" {part['minutes']} minutes\n"
        )
        lines += table(part["figures"])
    if not parts:
        lines.append("\nNothing yet: run `make chaos`.\n")
    return (
        "\n".join(line.rstrip("\n") if line.startswith("|") else line for line in lines).rstrip(
            "\n"
        )
        + "\n"
    )


def table(figures):
    rows = ["| scenario | measured |", "|---|---|"]
    for figure in figures:
        told = ", ".join(
            f"{key.replace('_', ' ')} {said(value)}"
            for key, value in figure.items()
            if key != "fault"
        )
        rows.append(f"| {figure['fault']} | {told} |")
    return rows


def said(value):
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)

"""docs/reliability.md: the promise, the rule for each fault, and the measured figures."""

RULES = (
    (
        "learner killed (`kill -9`, out of memory, power)",
        "the next learner resumes from the newest checkpoint",
        "`onepass_uncheckpointed_events` starts at 0",
    ),
    (
        "learner stopped for a while, and a standby took over",
        "its late writes are refused; it drops its memory and stands by",
        "`onepass_fenced_total`, `onepass_lease_held`",
    ),
    (
        "SIGTERM",
        "it writes a last checkpoint, gives the lease back, finishes open requests and ends",
        "exit 0; no event is learned again",
    ),
    (
        "SIGTERM, or a checkpoint falls due, in a batch that takes long (texts of 1 MB)",
        (
            "the batch is learned in pieces of 0.25 s; what was learned is saved, and the rest is"
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
            "as Redis away; the log and `/status` name the refusal, and learning goes on when"
            " Redis takes writes again"
        ),
        "`onepass_redis_up` 0, `onepass_checkpoint_failures_total`",
    ),
    (
        "Redis went back in time or was emptied",
        (
            "a running learner writes its newer state on top; a new one starts from what Redis has,"
            " from a file backup, or empty"
        ),
        "`onepass_fenced_total`, `onepass_checkpoint_generation` falls",
    ),
    (
        "checkpoint damaged",
        (
            "the newest good one is loaded; if none is good, the learner stops. It never starts"
            " empty by itself"
        ),
        "`onepass_checkpoint_corrupt_total`, exit 3",
    ),
    (
        "Kafka away, also at the start",
        "HTTP answers within 3 s, predictions go on, and the learner retries without end",
        "`onepass_kafka_up` 0, `onepass_source_up` 0",
    ),
    (
        (
            "Kafka refuses the login, also during a run; the listener speaks another protocol; the"
            " certificate does not fit"
        ),
        (
            "the learner retries without end; the log names the user or the setting (`security.…`),"
            " never the password"
        ),
        "`onepass_kafka_up` 0",
    ),
    (
        "Kafka lost acknowledged records in an unclean leader election",
        "as a log that was cut off, by `source.on_data_loss`",
        "exit 3, or `onepass_events_lost_total{reason}`",
    ),
    (
        "a small compressed batch that would fill the memory",
        (
            "above 64 MiB, or 1,000 headers per record, it counts as unreadable; other batches are"
            " unpacked two at a time (kafka-python)"
        ),
        "exit 3, or `onepass_events_lost_total{reason}`",
    ),
    (
        "an operator imports, rolls back and freezes at the same moment",
        (
            "each is done or refused (exit 1); the learner resumes from the newest generation, or"
            " stops if that has other settings"
        ),
        "exit 3, `onepass_fenced_total`",
    ),
    (
        "the client of the log hangs",
        "after 30 s the process ends with status 1, to be started again",
        "exit 1",
    ),
    (
        "a message that is no event",
        (
            "it is counted by reason, kept in the dead-letter log *before* the checkpoint that"
            " passes it, and never learned"
        ),
        "`onepass_rejects_total{reason}`",
    ),
    (
        "retention passed the position, topic recreated, log cut off, batch unreadable",
        "by `source.on_data_loss`: stop (default), or go on and record the gap",
        "exit 3, or `onepass_events_lost_total{reason}`",
    ),
    (
        "a Redis stream is trimmed, recreated or restored from an older dump under a reader",
        (
            "noticed before any later entry is delivered; by `source.on_data_loss`: stop, or record"
            " the gap"
        ),
        "exit 3, or `onepass_events_lost_total{reason}`",
    ),
    (
        "a file is rewritten or cut in place while it is read",
        "stop. A file that only grows, or is replaced by another, is read on as it was",
        "exit 3",
    ),
    (
        "partition added",
        "it is read from its beginning",
        "`onepass_lag_events{partition}`",
    ),
    (
        "the clock of Redis is set back or forward",
        (
            "a lease with more time left than it can have counts as over; if one ends early, the"
            " token decides who writes"
        ),
        "`onepass_fenced_total`",
    ),
    (
        "keys file unreadable or broken",
        (
            "the keys read before stay valid for 300 s, then every key is refused until the file"
            " can be used"
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
            "at the start: exit 1 and one line; later the operating system kills the learner, and"
            " the next one resumes"
        ),
        "exit 1, or killed",
    ),
    (
        "network cut, silent, slow or reset; a reply lost",
        "every wait has an end; a commit that was sent twice is done once",
        "`onepass_redis_up`, `onepass_kafka_up`",
    ),
)
"""Fault, what happens, how it shows."""

STATUSES = (
    (0, "done, also after Ctrl-C and SIGTERM", "nothing"),
    (1, "failed, or stopped before `--until-end` was reached", "start it again"),
    (2, "wrong usage, configuration or input file", "correct it; do not start it again before"),
    (3, "stopped to protect the state", "read its log and decide; do not start it again before"),
)
"""Exit status, meaning, what to do."""

TEXT = """# What happens when something breaks

After reading this page you know what each fault does to the model, how it shows, what is not
promised, and what was measured.

*Generated by `make chaos` from `tests/chaos/page.py` and the measured figures; do not edit this
page.*

**The promise.** Whatever is killed, cut, stopped or lost, the model in Redis is always the result
of learning every message before its positions exactly once, in one definite order. So after any
number of faults the weights are bit for bit those of an undisturbed pass over the same messages,
and `events`, `errors` and `rejects` are exact. A fault costs time: what was learned after the last
checkpoint is learned again.

Why it holds:

- A checkpoint holds the state *and* the positions in the log. One script in Redis makes it visible
  as a whole, or not at all.
- Only the learner that acquired the model last can write, whatever an older one still believes.
- A learner starts from a checkpoint and from nothing else. Offsets committed to Kafka are for lag
  tools and are never read.

## The rule for each fault

{rules}

## Exit status

{statuses}

## What is not promised

* **Dead letters come at least once.** After a kill some may be there twice, with the same key,
  `model:partition:position`.
* **Events posted over HTTP come at least once.** A caller that sends one again after no answer, or
  after 503 `log_down`, may put it into the log twice. It is then learned twice.
* **Metrics and logs** of a process end with it. What must survive is in the checkpoint
  (`onepass_model_events`, …).
* **Redis without persistence** keeps nothing over a restart. A running learner fills it again. If
  no learner is left, the model starts from `store.backup`, or learns the log again as far back as
  the log reaches.
* **Retention shorter than an outage** loses events before they are learned. The loss is noticed and
  counted, not repaired: keep the log longer than the oldest checkpoint plus the longest outage that
  you want to survive.
* **Duplicates made by producers** are two messages, and are learned twice. Use idempotent
  producers.
* **Several partitions** interleave as they are fetched, so two runs learn in different orders. The
  actual order is in the checkpoint, and `onepass audit` builds the same bits from it.
* **Other hardware or library versions** may round differently. Identical bits are promised on the
  same ones.
* **A prediction** may come from a state that no checkpoint has yet. After a kill the count may step
  back.

## What was measured

Each scenario ends with the same proof. The weights, counts and rejects of the newest checkpoint are
compared bit for bit with one undisturbed pass over the same messages (or with `onepass audit`). The
messages carry serial numbers, and their sum is read out of the model's state.

`different` counts the runs that were not identical. The real Apache Kafka and the real Redis are
used throughout. `make chaos PART=…` runs one part; `make test` runs a few rounds of each.
"""


def page(parts):
    """Build the whole page; `parts` as in docs/reliability.json."""
    rules = table(("fault", "what happens", "how it shows"), RULES)
    statuses = table(("status", "meaning", "what to do"), STATUSES)
    sections = [TEXT.replace("{rules}", rules).replace("{statuses}", statuses)]
    sections += [part_section(name, part) for name, part in parts.items()]
    if not parts:
        sections.append("Nothing yet: run `make chaos`.\n")
    return "\n".join(sections)


def part_section(name, part):
    figures = [(figure["fault"], format_figure(figure)) for figure in part["figures"]]
    return (
        f"### {name}\n\n"
        f"`make chaos PART={name}` · {part['date']} (UTC) · {part['machine']} ·"
        f" {part['minutes']} minutes\n\n{table(('scenario', 'measured'), figures)}\n"
    )


def table(heads, rows):
    lines = [f"| {' | '.join(map(str, row))} |" for row in (heads, *rows)]
    lines.insert(1, "|---" * len(heads) + "|")
    return "\n".join(lines)


def format_figure(figure):
    return ", ".join(
        f"{key.replace('_', ' ')} {format_value(value)}"
        for key, value in figure.items()
        if key != "fault"
    )


def format_value(value):
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)

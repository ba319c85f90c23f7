"""Making a Kafka topic where there is none: for dead letters and for the demo, never for a source."""

from kafka import KafkaAdminClient  # type: ignore[import-untyped]
from kafka.errors import KafkaError, KafkaTimeoutError, TopicAlreadyExistsError  # type: ignore[import-untyped]

from service.log_settings import Security
from service.sources.contract import SourceDown
from service.sources.kafka_login import why_down
from service.sources.kafka_security import for_kafka_python, knock


def create_topic(bootstrap: str, topic: str, security: Security | None = None, partitions: int = 1) -> bool:
    """Make sure that the topic exists; whether it had to be made, with so many partitions."""
    knock(bootstrap, security)
    servers = {"bootstrap_servers": bootstrap.split(","), "bootstrap_timeout_ms": 3_000}
    try:
        with KafkaAdminClient(**servers, **for_kafka_python(security)) as admin:
            if topic in admin.list_topics():
                return False
            admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)
    except TopicAlreadyExistsError:
        return False
    except KafkaTimeoutError as error:
        raise why_down(bootstrap, security, error) from error
    except (KafkaError, OSError) as error:
        raise SourceDown(f"topic {topic} is not there and cannot be made at {bootstrap}: {error}") from error
    return True

"""The shipped files that run the code are valid and agree with each other."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from service.config.loader import load
from service.config.settings import Settings
from tests.deployed import DASHBOARDS, DEPLOY, RULES, read_yaml
from tests.looped import looped

ROOT = Path(__file__).parents[2]
PROVISIONING = DEPLOY / "grafana" / "provisioning"
PROMETHEUS = DEPLOY / "prometheus" / "prometheus.yml"
CONFIG_IN_IMAGE = "/etc/onepass/config.yaml"


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read_yaml(ROOT / "docker-compose.yml")["services"]
    return found


def binds(service: dict[str, Any]) -> dict[str, Path]:
    """Return path in the container -> path in the repository, of the mounts that are not named
    volumes.
    """
    mounts = [mount.split(":") for mount in service.get("volumes", [])]
    return {mount[1]: ROOT / mount[0] for mount in mounts if mount[0].startswith((".", "/"))}


def dockerfile() -> list[tuple[str, str]]:
    """Return (instruction, arguments), with continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [
        (name, arguments.strip()) for name, _, arguments in (line.partition(" ") for line in lines)
    ]


def copied_files() -> list[str]:
    return [
        source
        for name, arguments in dockerfile()
        if name == "COPY"
        for source in arguments.split()[:-1]
    ]


def composed_settings() -> Settings:
    """Return the settings of onepass in its container: the mounted file, overridden by the
    environment of the compose file.
    """
    onepass = services()["onepass"]
    return load(binds(onepass)[CONFIG_IN_IMAGE], onepass["environment"])


@looped("path", sorted(DEPLOY.rglob("*.y*ml")), ids=lambda path: path.name)
def test_every_yaml_file_is_a_mapping(path: Path):
    assert isinstance(read_yaml(path), dict)


def test_compose_has_the_services_of_the_loop_and_of_monitoring():
    assert {"kafka", "redis", "onepass", "prometheus", "grafana"} <= services().keys()


def test_compose_mounts_only_files_of_the_repository():
    mounted = [source for service in services().values() for source in binds(service).values()]
    assert mounted
    assert [source for source in mounted if not source.exists()] == []


def test_named_volumes_are_declared():
    used = {
        mount.split(":")[0]
        for service in services().values()
        for mount in service.get("volumes", [])
        if not mount.startswith((".", "/"))
    }
    assert used == read_yaml(ROOT / "docker-compose.yml")["volumes"].keys()


def test_ports_are_published_on_the_loopback_only():
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not str(port).startswith("127.0.0.1:")] == []


def test_redis_is_configured_to_keep_acknowledged_writes():
    command = services()["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options == {
        "--appendonly": "yes",
        "--appendfsync": "always",
        "--maxmemory-policy": "noeviction",
    }


def test_onepass_waits_for_healthy_services_and_its_topics():
    waits = {name: wait["condition"] for name, wait in services()["onepass"]["depends_on"].items()}
    healthy = {name for name, condition in waits.items() if condition == "service_healthy"}
    assert healthy == {"kafka", "redis"}
    assert all("healthcheck" in services()[name] for name in healthy)
    assert waits["topics"] == "service_completed_successfully"


def test_config_loads_and_names_the_services_and_topics_of_compose():
    settings = composed_settings()
    assert settings.dead_letters is not None
    kafka_urls = [urlsplit(settings.source.url), urlsplit(settings.dead_letters.url)]
    assert {(url.scheme, url.netloc) for url in kafka_urls} == {("kafka", "kafka:9092")}
    script = services()["topics"]["command"][0]
    created = re.search(r"for topic in (.+); do", script)
    assert created
    assert {url.path.removeprefix("/") for url in kafka_urls} == set(created[1].split())
    assert urlsplit(settings.store.url).netloc == "redis:6379"


def test_all_files_name_the_same_port():
    api = composed_settings().api
    assert api.host == "0.0.0.0"
    assert services()["onepass"]["ports"] == [f"127.0.0.1:{api.port}:{api.port}"]
    scrapes = read_yaml(PROMETHEUS)["scrape_configs"]
    targets = [
        target
        for scrape in scrapes
        for static in scrape["static_configs"]
        for target in static["targets"]
    ]
    assert targets == [f"onepass:{api.port}"]
    assert f"http://127.0.0.1:{api.port}/healthz" in dict(dockerfile())["HEALTHCHECK"]
    assert dict(dockerfile())["EXPOSE"] == str(api.port)


def test_the_container_without_keys_listens_to_all_with_insecure():
    onepass = services()["onepass"]
    assert composed_settings().api.keys_file is None
    assert onepass["command"] == [*json.loads(dict(dockerfile())["CMD"]), "--insecure"]


def test_image_runs_onepass_as_a_numeric_user_that_is_not_root():
    steps = dict(dockerfile())  # the last one of each instruction counts
    # A number, since an orchestrator that demands "not root" cannot look up a name.
    assert re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", steps["USER"])
    assert json.loads(steps["ENTRYPOINT"]) == ["onepass"]
    assert json.loads(steps["CMD"]) == ["run", "--config", CONFIG_IN_IMAGE]


def test_the_image_copies_only_existing_files_that_dockerignore_admits():
    assert [source for source in copied_files() if not (ROOT / source).exists()] == []
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in ignore if line.startswith("!")} == set(copied_files())


def test_the_health_check_is_a_valid_program():
    command = json.loads(dict(dockerfile())["HEALTHCHECK"].partition(" CMD ")[2])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "HEALTHCHECK", "exec")


def test_grafana_finds_its_dashboards_and_its_datasource():
    mounted = binds(services()["grafana"])
    assert mounted["/etc/grafana/provisioning"] == PROVISIONING
    providers = read_yaml(PROVISIONING / "dashboards" / "onepass.yaml")["providers"]
    assert [mounted[provider["options"]["path"]] for provider in providers] == [
        DASHBOARDS[0].parent
    ]
    sources = read_yaml(PROVISIONING / "datasources" / "prometheus.yaml")["datasources"]
    assert [(source["uid"], source["type"], source["url"]) for source in sources] == [
        ("prometheus", "prometheus", "http://prometheus:9090")
    ]


def test_the_first_page_of_grafana_is_a_dashboard():
    home = Path(services()["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert binds(services()["grafana"])[str(home.parent)] / home.name in DASHBOARDS


def test_prometheus_finds_its_rules():
    mounted = binds(services()["prometheus"])
    assert mounted["/etc/prometheus"] == DEPLOY / "prometheus"
    found = [
        sorted(mounted["/etc/prometheus"].glob(glob))
        for glob in read_yaml(PROMETHEUS)["rule_files"]
    ]
    assert found == [RULES]

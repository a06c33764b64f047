"""The files for services are consistent with the program: units are valid, manifests fit together, their commands are ours."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import changeling
from changeling.cli.main import _parse
from changeling.pipelines.loading import load

FILES = Path(__file__).parents[2] / "operations"
UNITS = sorted(path.name for path in FILES.glob("changeling*@.*"))


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FILES / "kubernetes" / name).read_text()))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_units_are_valid(tmp_path: Path) -> None:
    assert UNITS == ["changeling-maintain@.service", "changeling-maintain@.timer", "changeling@.service"]
    for name in UNITS:
        text = (FILES / name).read_text().replace("/opt/changeling/bin/changeling", sys.executable)
        (tmp_path / name).write_text(text)
    command = ["systemd-analyze", "verify", *(str(tmp_path / name) for name in UNITS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_units_run_verbs_that_exist() -> None:
    for name in UNITS:
        for call in re.findall(
            r"^ExecStart=/opt/changeling/bin/changeling (.*)$", (FILES / name).read_text(), re.MULTILINE
        ):
            _parse(call.replace("%i", "shop").split())


def test_the_pipeline_of_kubernetes_runs_as_one_pod_without_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {one["kind"]: one for one in documents("pipeline.yaml")}
    assert {one["metadata"]["name"] for one in found.values()} == {"changeling-shop"}
    monkeypatch.setenv("PG_URL", found["Secret"]["stringData"]["PG_URL"])
    (tmp_path / "shop.yaml").write_text(found["ConfigMap"]["data"]["shop.yaml"])
    loaded = load(tmp_path / "shop.yaml")
    stateful = found["StatefulSet"]["spec"]
    pod = stateful["template"]["spec"]
    (container,) = pod["containers"]
    assert stateful["replicas"] == 1
    assert (
        stateful["selector"]["matchLabels"]
        == stateful["template"]["metadata"]["labels"]
        == found["Service"]["spec"]["selector"]
    )
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounts.values()) == {volume["name"] for volume in pod["volumes"]}
    assert mounts[str(Path(loaded.warehouse).parent)] == "lake"
    parsed = _parse(container["args"])
    assert Path(parsed.file).parent == Path("/etc/changeling")
    (port,) = container["ports"]
    assert parsed.metrics == f"0.0.0.0:{port['containerPort']}"


def test_the_image_is_not_root_and_starts_verbs_and_executors(tmp_path: Path) -> None:
    text = (FILES / "Dockerfile").read_text()
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE)[-1] == "10001:10001"
    for name in re.findall(r"^COPY (?:--chmod=\d+ )?((?:[\w./-]+ )+)\S+$", text, re.MULTILINE):
        for file in name.split():
            assert (FILES.parent / file).exists(), file
    for name in ("changeling", "java"):
        stand_in = tmp_path / name
        stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
        stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)

    def run(*arguments: str, **environment: str) -> list[str]:
        path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        given = {**os.environ, "PATH": path, **environment}
        return subprocess.run(
            [str(FILES / "entrypoint.sh"), *arguments], env=given, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    assert run("run", "a b.yaml") == [str(tmp_path / "changeling"), "run", "a b.yaml"]
    names = ["DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID", "EXECUTOR_POD_IP", "RESOURCE_PROFILE_ID"]
    given = {f"SPARK_{name}": name.lower() for name in (*names, "EXECUTOR_POD_NAME")}
    found = run("executor", **given, SPARK_EXECUTOR_MEMORY="1g", SPARK_JAVA_OPT_1="-Db=2 3", SPARK_JAVA_OPT_0="-Da=1")
    assert found[:5] == [str(tmp_path / "java"), "-Da=1", "-Db=2 3", "-Xms1g", "-Xmx1g"]
    assert found[7:] == [
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", "driver_url", "--executor-id", "executor_id", "--cores", "executor_cores"),
        *("--app-id", "application_id", "--hostname", "executor_pod_ip", "--resourceProfileId", "resource_profile_id"),
        *("--podName", "executor_pod_name"),
    ]


def test_the_page_names_files_and_a_version_that_exist() -> None:
    page = (FILES.parent / "docs" / "deployment.md").read_text(encoding="utf-8")
    named = re.findall(r"(?<=[ (./])operations/[\w@*./-]*[\w*]", page)
    assert named
    assert [path for path in named if not list(FILES.parent.glob(path))] == []
    assert set(re.findall(r"changeling:([\d.]+\d)", page)) == {changeling.__version__}

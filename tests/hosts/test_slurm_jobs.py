"""The recipes of docs/hosts.md in a real Slurm: a plain job, a heterogeneous one, and one that is requeued."""

import os
import pathlib
import re
import signal

import pytest

from tests.hosts.recipes import ROOT, recipe
from tools.lab.namespaces import await_text

VARIABLES = {"TF_CPP_MIN_LOG_LEVEL": "3"}
LIMIT_S = 240.0


def _submit(jobs, folder, script, *options):
    """Submit a script, and return the number of its job and the file of its output."""
    file, out = folder / "job.sh", folder / "job.out"
    link = folder / "models"
    if not link.exists():
        link.symlink_to(ROOT / "models")
    file.write_text(script)
    export = f"--export=ALL,PYTHONPATH={ROOT},{','.join(f'{name}={value}' for name, value in VARIABLES.items())}"
    return jobs.submit(file, "-o", str(out), "--chdir", str(folder), export, *options), out


def _said(out):
    return out.read_text(errors="replace")


def test_a_plain_job_trains_on_all_its_nodes(slurm_jobs, tmp_path):
    job, out = _submit(slurm_jobs, tmp_path, recipe("--ntasks-per-node=1\nsrun", epochs="1", measure="first", budget="5"))
    assert slurm_jobs.await_end(job, LIMIT_S) == "COMPLETED", _said(out)
    assert (tmp_path / "state.npz").exists() and "test accuracy" in _said(out)
    assert {"worker 0 serves on alpha", "worker 1 serves on beta"} <= set(re.findall(r"worker \d serves on \w+", _said(out)))


def test_a_heterogeneous_job_trains_on_the_nodes_of_all_components(slurm_jobs, tmp_path):
    job, out = _submit(slurm_jobs, tmp_path, recipe("hetjob", epochs="1", measure="first", budget="5"))
    assert slurm_jobs.await_end(job, LIMIT_S) == "COMPLETED", _said(out)
    assert set(re.findall(r"worker \d serves on (\w+)", _said(out))) == {"alpha", "beta", "gamma"}
    assert "worker:2" in _said(out) and "test accuracy" in _said(out)


def test_a_heterogeneous_job_whose_step_is_over_the_first_component_is_told_so(slurm_jobs, tmp_path):
    script = recipe("hetjob", epochs="1").replace(" --het-group=0,1", "").replace(" &\n", "\n", 1)
    job, out = _submit(slurm_jobs, tmp_path, script.partition("hetero_mtf train")[0].rpartition("\n")[0] + "\n")
    slurm_jobs.await_end(job, LIMIT_S)
    assert "SLURM_JOB_NODELIST 'alpha,beta,gamma'" in _said(out) and "--het-group=0,1" in _said(out)


@pytest.mark.parametrize("options", [["--exclusive"], ["--exclusive", "--nodes=3"]], ids=["two", "three"])
def test_an_exclusive_job_without_a_number_of_tasks_has_a_worker_a_node(slurm_jobs, tmp_path, options):
    script = recipe("--ntasks-per-node=1\nsrun", epochs="1", measure="first", budget="5").replace(" --ntasks-per-node=1", "")
    job, out = _submit(slurm_jobs, tmp_path, script, *options)
    assert slurm_jobs.await_end(job, LIMIT_S) == "COMPLETED", _said(out)
    assert len(set(re.findall(r"worker \d serves on \w+", _said(out)))) == 2 + ("--nodes=3" in options)


def test_a_job_is_requeued_before_its_time_limit_and_goes_on(slurm_jobs, tmp_path):
    job, out = _submit(slurm_jobs, tmp_path, recipe("--requeue", epochs="100000"), "--time=2")
    seconds = await_text(out, "going on after step", LIMIT_S)
    slurm_jobs.call(["scancel", str(job)])
    first = re.search(r"the state after step (\d+) is in", _said(out))
    assert first and f"going on after step {first[1]} of" in _said(out) and seconds < LIMIT_S, _said(out)


def test_a_job_that_is_cancelled_saves_the_step_of_the_signal(slurm_jobs, tmp_path):
    script = recipe("--ntasks-per-node=1\nsrun", epochs="100000", save_every="1000000").replace("\nhetero_mtf", "\nexec hetero_mtf")
    job, out = _submit(slurm_jobs, tmp_path, script)
    await_text(out, "epoch", LIMIT_S)
    slurm_jobs.call(["scancel", str(job)])
    slurm_jobs.await_end(job, LIMIT_S)
    assert re.search(r"the state after step \d+ is in", _said(out)) and (tmp_path / "state.npz").exists(), _said(out)


def test_a_job_goes_on_without_a_task_that_is_killed_and_with_it_when_it_is_started_again(slurm_jobs, tmp_path):
    script = recipe("--ntasks-per-node=1\nsrun", epochs="100000", save_every="20", elastic="", measure="steps")
    worker = re.search(r"^srun (.*?) &", script, re.MULTILINE)[1]
    job, out = _submit(slurm_jobs, tmp_path, script.replace(worker, f"sh -c 'until {worker}; do sleep 2; done'"))
    await_text(out, "epoch", LIMIT_S)
    commands = {process: pathlib.Path(f"/proc/{process}/cmdline").read_bytes() for process in slurm_jobs.lab.processes("beta")}
    serving = [process for process, command in commands.items() if b"hetero_mtf\0worker" in command and b"-c\0" not in command]
    for process in serving:
        os.kill(process, signal.SIGKILL)
    await_text(out, "training goes on with worker:0 alone", LIMIT_S)
    await_text(out, "worker:1 is back; training goes on with", LIMIT_S)
    slurm_jobs.call(["scancel", str(job)])
    slurm_jobs.await_end(job, LIMIT_S)

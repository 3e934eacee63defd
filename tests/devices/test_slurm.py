"""The variables of a Slurm job: where its servers listen, and steps and jobs that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.devices.addresses import Addresses
from hetero_mtf.devices.slurm import expand_nodelist, parse_slurm
from hetero_mtf.errors import ClusterError

SLURM = {"SLURM_JOB_ID": "4321", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2,1", "SLURM_NTASKS_PER_NODE": "2"}
BATCH = {**SLURM, "SLURM_NTASKS": "3", "SLURM_NPROCS": "3", "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0"}


def _step(nodes="n[1-2]", counts="2,1", total="3", preserved=False, **changes):
    """Return the variables of the first task of a step: srun sets those of the step, and of the job's those of tasks unless preserved."""
    own = {"STEP_NODELIST": nodes, "STEP_TASKS_PER_NODE": counts, "STEP_NUM_TASKS": total, "STEP_ID": "0"}
    job = {} if preserved else {"TASKS_PER_NODE": counts, "NTASKS": total, "NPROCS": total}
    return {**BATCH, **{f"SLURM_{name}": value for name, value in (own | job | changes).items()}}


def test_slurm_gives_a_server_a_task_with_ports_that_follow_from_the_job():
    first = 61000 + 4321 - 4000
    assert parse_slurm(SLURM) == Addresses((f"n1:{first}", f"n1:{first + 1}", f"n2:{first}"))


@pytest.mark.parametrize(("node", "local", "task"), [("0", "0", 0), ("0", "1", 1), ("1", "0", 2)])
def test_a_slurm_task_finds_itself_by_its_node_and_not_its_rank(node, local, task):
    step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "9", "SLURM_NODEID": node, "SLURM_LOCALID": local}
    assert parse_slurm({**SLURM, **step}).task == task


def test_slurm_without_task_counts_has_one_a_node():
    assert len(parse_slurm({**SLURM, "SLURM_TASKS_PER_NODE": ""}).hosts) == 2
    assert len(parse_slurm({**SLURM, "SLURM_TASKS_PER_NODE": "3(x2)"}).hosts) == 6


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"SLURM_JOB_ID": ""}, "so this is no Slurm job; run inside a job of sbatch, srun or salloc"),
        ({"SLURM_JOB_NODELIST": ""}, "so this is no Slurm job"),
        ({"SLURM_TASKS_PER_NODE": "two"}, "SLURM_TASKS_PER_NODE is 'two', which cannot be read; give the hosts with"),
        ({"SLURM_TASKS_PER_NODE": "1(x3)"}, r"SLURM_TASKS_PER_NODE '1\(x3\)' is for 3 nodes, the job has 2; start the tasks on all nodes"),
        (
            {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "2"},
            "SLURM_NODEID is '0' and SLURM_LOCALID '2' in a job with .* start the task with srun",
        ),
    ],
)
def test_slurm_variables_that_cannot_be_used_are_refused(changes, sentence):
    with pytest.raises(ClusterError, match=sentence):
        parse_slurm({**SLURM, **changes})


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("n1", ["n1"]),
        ("n1,m2", ["n1", "m2"]),
        ("n[1,3-4]", ["n1", "n3", "n4"]),
        ("n[098-101]x", ["n098x", "n099x", "n100x", "n101x"]),
        ("a[1-2],b,c[05]", ["a1", "a2", "b", "c05"]),
    ],
)
def test_node_lists_are_expanded(text, nodes):
    assert list(expand_nodelist(text)) == nodes


@pytest.mark.parametrize("text", ["", "n[2-1]", "n[]", "n[1-2", "n[a-b]", "n[1-2-3]"])
def test_node_lists_that_cannot_be_read_are_refused(text):
    with pytest.raises(ClusterError, match="the node list .*; give the hosts with hosts:HOST:PORT,..."):
        expand_nodelist(text)


@given(st.integers(0, 50), st.integers(0, 30), st.integers(1, 4))
def test_a_range_gives_every_number_once_with_leading_zeros_kept(first, more, width):
    nodes = expand_nodelist(f"n[{first:0{width}d}-{first + more}]")
    assert [int(node[1:]) for node in nodes] == list(range(first, first + more + 1))
    assert all(len(node) > width for node in nodes)


def test_a_program_reads_the_job_in_the_batch_script_and_in_a_step_of_one_task_that_keeps_its_variables():
    hosts = parse_slurm(SLURM).hosts
    shell = _step("n1", "1", "1", preserved=True, STEP_ID="4294967290")  # of salloc
    clients = (
        BATCH,
        {**BATCH, "SLURM_STEP_ID": "4294967291"},
        {**BATCH, "SLURM_STEP_ID": "-5"},
        shell,
        _step("n2", "1", "1", preserved=True),
    )
    assert [(parse_slurm(variables).hosts, parse_slurm(variables).task) for variables in clients] == [(hosts, None)] * len(clients)


def test_a_program_in_a_step_that_hides_the_tasks_of_the_job_is_told_to_keep_them():
    with pytest.raises(ClusterError, match="SLURM_TASKS_PER_NODE '1' is for 1 nodes, the job has 2; start the program .*--preserve-env"):
        parse_slurm(_step("n1", "1", "1"))


@pytest.mark.parametrize("nodes", ["n[1-2]", "n1,n2", "n[1,2]"])
def test_a_worker_whose_step_covers_the_job_serves_as_its_task(nodes):
    assert parse_slurm(_step(nodes, NODEID="1"), worker=True).task == 2
    assert parse_slurm(_step(nodes, preserved=True, STEP_NUM_NODES="2"), worker=True).task == 0


@pytest.mark.parametrize(
    ("variables", "difference"),
    [
        (_step("n1", "2", "2"), "SLURM_STEP_NODELIST is 'n1' and SLURM_JOB_NODELIST 'n\\[1-2\\]'"),
        (_step("n1", "2", "2", preserved=True), "SLURM_STEP_NODELIST is 'n1'"),
        (_step("n2,n1"), "SLURM_STEP_NODELIST is 'n2,n1'"),
        (_step(counts="2(x2)", total="4", preserved=True), r"SLURM_STEP_TASKS_PER_NODE is '2\(x2\)' and SLURM_TASKS_PER_NODE '2,1'"),
        (_step(STEP_NUM_NODES="1"), "SLURM_STEP_NUM_NODES is '1' and the job has 2 nodes"),
        (_step(STEP_NUM_TASKS="6"), "SLURM_STEP_NUM_TASKS is '6' and the job has 3 tasks"),
        (_step("n1", "1", "1", preserved=True, STEP_ID="4294967290"), "SLURM_STEP_NODELIST is 'n1'"),
    ],
)
def test_a_worker_whose_step_differs_from_the_job_is_refused(variables, difference):
    with pytest.raises(ClusterError, match=f"{difference}.*; start the workers in one step over all nodes .* or give the hosts with"):
        parse_slurm(variables, worker=True)


def _components(kind="HET", **variables):
    """Return what Slurm 22.05 sets in a job of one task on alpha and one on each of beta and gamma, with further variables."""
    own = {"JOB_ID": ("2", "3"), "JOB_NODELIST": ("alpha", "beta,gamma"), "TASKS_PER_NODE": ("1", "1(x2)"), "NTASKS": ("1", "2")}
    groups = {f"SLURM_{name}_{kind}_GROUP_{group}": value for name, values in own.items() for group, value in enumerate(values)}
    return {f"SLURM_{kind}_SIZE": "2", "SLURM_JOB_ID": "2", **groups, **{f"SLURM_{name}": value for name, value in variables.items()}}


def _task_of(nodes, counts, total, node="0", **changes):
    """Return the variables of a task in a step, as srun sets them."""
    step = {"STEP_ID": "0", "STEP_NODELIST": nodes, "STEP_TASKS_PER_NODE": counts, "STEP_NUM_TASKS": total, "PROCID": node, "LOCALID": "0"}
    return {**step, "NODEID": node, "JOB_NODELIST": nodes, "TASKS_PER_NODE": counts, "NTASKS": total, "NPROCS": total, **changes}


FIRST = {"JOB_NODELIST": "alpha", "TASKS_PER_NODE": "1", "NTASKS": "1", "NPROCS": "1", "NODEID": "0", "PROCID": "0", "LOCALID": "0"}
THREE = ("alpha:61002", "beta:61002", "gamma:61002")


@pytest.mark.parametrize("kind", ["HET", "PACK"])
def test_a_heterogeneous_job_has_the_nodes_of_all_components_in_the_batch_script_and_in_a_step_over_all(kind):
    assert parse_slurm(_components(kind, **FIRST)) == Addresses(THREE)
    for node in range(3):
        step = _components(kind, **_task_of("alpha,beta,gamma", "1(x3)", "3", str(node)))
        assert parse_slurm(step, worker=True) == Addresses(THREE, node) and parse_slurm(step).hosts == THREE
    assert parse_slurm({**SLURM, f"SLURM_{kind}_SIZE": "1"}) == parse_slurm(SLURM)


def test_a_worker_in_a_step_over_the_first_component_alone_is_told_how_to_start_all():
    variables = _components(**_task_of("alpha", "1", "1"))
    said = "SLURM_STEP_NODELIST is 'alpha' and SLURM_JOB_NODELIST 'alpha,beta,gamma'; .* srun --het-group=0,1"
    with pytest.raises(ClusterError, match=said):
        parse_slurm(variables, worker=True)
    assert parse_slurm(variables) == Addresses(THREE)  # a program may be there


def test_components_that_share_a_node_have_other_ports_on_it():
    shared = {"SLURM_JOB_NODELIST_HET_GROUP_1": "beta,alpha"}
    assert parse_slurm({**_components(**FIRST), **shared}).hosts == ("alpha:61002", "beta:61002", "alpha:61003")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"SLURM_HET_SIZE": "3"}, "the Slurm job has 3 components and no SLURM_JOB_NODELIST_HET_GROUP_2; give the hosts"),
        ({"SLURM_HET_SIZE": "two"}, "SLURM_HET_SIZE is 'two', which cannot be read"),
        ({"SLURM_NTASKS_HET_GROUP_1": "5"}, "SLURM_NTASKS is '6' and SLURM_TASKS_PER_NODE '1,1.x2.', which are 3 tasks"),
        ({"SLURM_JOB_NODELIST_HET_GROUP_1": "b["}, "the node list 'b.' cannot be read"),
    ],
)
def test_components_that_cannot_be_read_are_refused(changes, sentence):
    with pytest.raises(ClusterError, match=sentence):
        parse_slurm({**_components(**FIRST), **changes})


def test_an_exclusive_job_without_a_number_of_tasks_has_one_a_node_as_srun_starts_them():
    batch = {"SLURM_JOB_ID": "4", "SLURM_JOB_NODELIST": "alpha,beta", "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_PROCID": "0"}
    step = {"SLURM_JOB_ID": "4", **{f"SLURM_{name}": value for name, value in _task_of("alpha,beta", "1(x2)", "2", "1").items()}}
    assert parse_slurm(batch) == Addresses(("alpha:61004", "beta:61004"))
    assert parse_slurm(step, worker=True) == Addresses(("alpha:61004", "beta:61004"), 1)


@pytest.mark.parametrize("name", ["SLURM_NTASKS", "SLURM_NPROCS"])
def test_another_number_of_tasks_than_the_nodes_have_is_refused(name):
    with pytest.raises(ClusterError, match=f"{name} is '8' and SLURM_TASKS_PER_NODE '2,1', which are 3 tasks; request the tasks of"):
        parse_slurm({**BATCH, name: "8"})


def test_the_names_of_earlier_versions_are_read_where_those_of_today_are_not_set():
    earlier = {"SLURM_JOBID": "4321", "SLURM_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2,1", "SLURM_NPROCS": "3"}
    assert parse_slurm(earlier) == parse_slurm({**SLURM, "SLURM_JOBID": "5", "SLURM_NODELIST": "n9"}) == parse_slurm(SLURM)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"SLURM_JOB_ID": "\N{SUPERSCRIPT TWO}"}, "so this is no Slurm job; run inside"),
        ({"SLURM_TASKS_PER_NODE": "0(x2)"}, r"SLURM_TASKS_PER_NODE '0\(x2\)' has no tasks; start the workers with srun"),
        ({"SLURM_TASKS_PER_NODE": "1(x999999999)"}, "SLURM_TASKS_PER_NODE is .*, which cannot be read; give the hosts"),
        ({"SLURM_TASKS_PER_NODE": "9000,1"}, "9000 tasks of a node have no ports from 61321 to 65535; start fewer"),
    ],
)
def test_counts_that_give_no_servers_are_refused(changes, sentence):
    with pytest.raises(ClusterError, match=sentence):
        parse_slurm({**SLURM, **changes})


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("rack[0-1]node[08-09]", ["rack0node08", "rack0node09", "rack1node08", "rack1node09"]),
        ("n[1][2]", ["n12"]),
        ("n-[1-2].zone.cloud.example,gpu_[7]", ["n-1.zone.cloud.example", "n-2.zone.cloud.example", "gpu_7"]),
        (" n1 , n[2-3] ", ["n1", "n2", "n3"]),
    ],
)
def test_node_lists_of_several_brackets_suffixes_and_spaces_are_expanded(text, nodes):
    assert list(expand_nodelist(text)) == nodes


@pytest.mark.parametrize(
    "text",
    ["n[1-2],n1", "n1,n1", "n[1-[2]]", "n[1-2]]", "n1,,n2", "n 1", "n/1", "n[0-999999999]", "n[0-9999][0-9999]", f"n[0-65535],{'m' * 9}"],
)
def test_node_lists_that_name_a_node_twice_too_many_or_none_are_refused(text):
    with pytest.raises(ClusterError, match="the node list .*; give the hosts with hosts:HOST:PORT,..."):
        expand_nodelist(text)

"""Tasks run once each, whoever's threads run them, also in children of fork."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest


def run(unit, tasks, *, nested=False, work=2000, small=False):
    runs = np.zeros(tasks, np.int32)
    threads = unit.unit_parallel(tasks, runs.ctypes.data, nested, work, small)
    return runs, threads


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("work", [0, 100, 5000])
@pytest.mark.parametrize("tasks", [0, 1, 2, 3, 7, 64, 1009])
def test_each_task_runs_once(unit, tasks, work, small):
    runs, threads = run(unit, tasks, work=work, small=small)
    assert (runs == 1).all()
    assert threads <= tasks


def test_tasks_may_start_tasks(unit):
    runs, _ = run(unit, 40, nested=True)
    assert (runs == 1).all()


def test_threads_that_call_at_once_all_get_their_work_done(unit):
    wrong = []

    def work():
        for _ in range(50):
            runs, _ = run(unit, 33)
            wrong.extend(r for r in runs if r != 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def script(unit_path, text, **environ):
    """Run Python with `run(tasks)`; a child that hangs fails the test."""
    head = f"""
        import ctypes, os, signal, numpy as np
        def threads():
            return set(os.listdir("/proc/self/task"))
        before = threads()
        unit = ctypes.CDLL({str(unit_path)!r})
        unit.unit_parallel.argtypes = [ctypes.c_long, ctypes.c_void_p, *[ctypes.c_int] * 3]
        def run(tasks, work=2000):
            runs = np.zeros(tasks, np.int32)
            threads = unit.unit_parallel(tasks, runs.ctypes.data, 0, work, 0)
            assert (runs == 1).all()
            return threads
        def child(work):
            pid = os.fork()
            if pid == 0:
                work()
                os._exit(0)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    """
    code = textwrap.dedent(head) + textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environ},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_number_of_threads_is_what_the_environment_says(unit_path):
    text = """
        most = max(run(1000) for _ in range(100))
        print(most, len(threads() - before))
    """
    assert script(unit_path, text, KDSL_NUM_THREADS="1") == "1 0\n"
    most, started = script(unit_path, text, KDSL_NUM_THREADS="3").split()
    assert 1 < int(most) <= 3
    assert started == "2"


def test_little_work_wakes_nobody(unit_path):
    text = """
        print([run(tasks, 0) for tasks in (20, 100)], len(threads() - before))
    """
    assert script(unit_path, text, KDSL_NUM_THREADS="4") == "[1, 1] 0\n"


def test_threads_do_not_take_the_programs_signals(unit_path):
    text = """
        run(1000)
        for thread in threads() - before:
            with open(f"/proc/self/task/{thread}/status") as status:
                (mask,) = [int(x.split()[1], 16) for x in status if x.startswith("SigBlk")]
            print([s.name for s in (signal.SIGINT, signal.SIGTERM) if mask >> (s - 1) & 1])
    """
    assert script(unit_path, text, KDSL_NUM_THREADS="2") == "['SIGINT', 'SIGTERM']\n"


def test_a_child_of_fork_gets_threads_of_its_own(unit_path):
    text = """
        run(1000)
        def grandchild():
            run(1000)
            assert child(lambda: run(1000)) == 0
        print(child(lambda: run(1000)), child(grandchild), run(1000) > 0)
    """
    assert script(unit_path, text, KDSL_NUM_THREADS="3") == "0 0 True\n"


def test_the_threads_of_torch_are_used_where_torch_is(unit_path):
    text = """
        own = unit.unit_uses_gomp()
        run(100)
        import torch
        torch.set_num_threads(2)
        torch.ones(300, 300) @ torch.ones(300, 300)
        before = threads()
        most = max(run(1000) for _ in range(50))
        torch.set_num_threads(1)
        one = run(1000)
        print(own, unit.unit_uses_gomp(), most <= 2, one, len(threads() - before))
    """
    assert script(unit_path, text) == "0 1 True 1 0\n"


def test_a_child_of_a_process_that_used_torchs_threads_does_not_hang(unit_path):
    text = """
        import torch
        torch.set_num_threads(2)
        torch.ones(300, 300) @ torch.ones(300, 300)
        run(1000)
        def work():
            assert unit.unit_uses_gomp() == 0
            run(1000)
        print(child(work), child(lambda: run(1000)))
    """
    assert script(unit_path, text) == "0 0\n"

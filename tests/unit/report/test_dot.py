from __future__ import annotations

import dataclasses

from dask_diffuse.report import dot_text


def test_draws_groups_sources_and_temporaries(plan):
    assert dot_text(plan) == DOT


DOT = r"""digraph program {
  node [shape=box fontname="sans-serif" fontsize=10]
  subgraph cluster_0 {
    label="group 0" style=rounded color="#3366cc"
    t0 [label="mul\nfloat64[1000, 1000]"]
    t1 [label="add\nfloat64[1000, 1000]" peripheries=2]
    t2 [label="sum\nfloat64[2, 1]" peripheries=2]
  }
  t3 [label="opaque\nfloat64[1000, 1000]" style=filled fillcolor="#e8e8e8"]
  s0 [shape=ellipse label="array\nfloat64[1000, 1000]"]
  s0 -> t0
  t0 -> t1 [style=dashed]
  t1 -> t2
  t1 -> t3
}
"""


def test_quotes_labels(plan):
    program = plan.program
    task = program.tasks[3]
    odd = dataclasses.replace(
        task, origin=dataclasses.replace(task.origin, label='a "b" \\')
    )
    program = dataclasses.replace(program, tasks=(*program.tasks[:3], odd))
    text = dot_text(dataclasses.replace(plan, program=program))
    assert r'label="a \"b\" \\\nfloat64' in text

"""Program -> FusionPlan: which tasks become one, why, and what they compute."""

from __future__ import annotations

from dask_diffuse.fusion.planner import clear_plans, plan_counts, plan_fusion

__all__ = ["clear_plans", "plan_counts", "plan_fusion"]

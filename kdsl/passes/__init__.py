"""What happens to the IR between the frontend and code: passes are functions, Func to Func."""

from kdsl.passes.pipeline import PIPELINE, run_pipeline
from kdsl.passes.specialise import fixed_dims, specialise

__all__ = ["PIPELINE", "fixed_dims", "run_pipeline", "specialise"]

r"""Experiments for the programs that run them: PsychoPy, questplus, AEPsych's clients.

None of these packages is needed to import the modules of this one.
"""

__all__: list[str] = []
